import { z } from 'zod';
import { whyVariableRefused } from '../../context/for-tools/refused-variables.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { showPath, withoutSecretKeys } from '../explain/problem.ts';
import { explainIssues } from '../schema/find-problems.ts';
import { isMap, serverName } from '../schema/schema-parts.ts';
import { serversSchema } from '../schema/schema-server.ts';

type ServerDraft = z.output<typeof serversSchema>[string];

/** A server as a file of another tool describes it. */
export interface ForeignServer {
  /** The name in Ambit. */
  readonly name: string;
  /** The keys that are used, as they were written. */
  readonly written: Readonly<Record<string, unknown>>;
  readonly server: ServerDraft;
}

interface ForeignServers {
  readonly servers: readonly ForeignServer[];
  /** Problems and oddities, a line each, without values. Invalid servers are left out above. */
  readonly problems: readonly string[];
}

/** The only keys that such a file may set. Trust is not among them. */
const takenKeys = ['command', 'args', 'env', 'url', 'headers', 'disabled'] as const;
const wrappedServersSchema = z.object({ servers: serversSchema });
const typeSpellings: Readonly<Record<string, string>> = { streamableHttp: 'streamable-http' };

/** Finds the map of servers in the formats of Claude, Cursor and VS Code. */
function findServerMap(file: unknown): { readonly key: string; readonly map: unknown } | undefined {
  if (!isMap(file)) return undefined;
  if (file['mcpServers'] !== undefined) return { key: 'mcpServers', map: file['mcpServers'] };
  if (file['servers'] !== undefined) return { key: 'servers', map: file['servers'] };
  const { mcp } = file as { mcp?: unknown };
  return isMap(mcp) && mcp['servers'] !== undefined ? { key: 'mcp.servers', map: mcp['servers'] } : undefined;
}

/** `My Server_2` becomes `my-server-2`; undefined when nothing usable is left. */
export function normalizeServerName(name: string): string | undefined {
  const plain = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-+|(?<!-)-+$/g, '');
  return serverName.test(plain) && plain !== 'ambit' ? plain : undefined;
}

const containsVariable = (value: unknown): boolean =>
  typeof value === 'string'
    ? value.includes('${')
    : isMap(value) || Array.isArray(value)
      ? Object.values(value).some(containsVariable)
      : false;

/** Reads a plain `mcpServers` file. It never throws: unusable parts are reported, the rest is returned. */
export function readMcpServers(text: string, prefixes: readonly string[]): ForeignServers {
  let file: unknown;
  try {
    // The text is not trusted: no regular expressions over the whole.
    file = JSON.parse(stripTrailingCommas(stripComments(text)));
  } catch {
    return { servers: [], problems: ['it is not valid JSON; its servers are not loaded'] };
  }
  const found = findServerMap(file);
  if (found === undefined || !isMap(found.map)) {
    return { servers: [], problems: ['it has no "mcpServers" or "servers" object'] };
  }
  const servers = new Map<string, ForeignServer>();
  const problems: string[] = [];
  for (const [spelled, value] of Object.entries(found.map)) {
    if (isAmbitEntry(spelled, value)) continue;
    const label = `${found.key}.${showPath([spelled])}`;
    const reject = (why: string): void =>
      void problems.push(`${label}: ${escapeControls(why)}; this server is not loaded`);
    const name = normalizeServerName(spelled);
    if (name === undefined) reject('a server name has 1 to 40 characters of a-z, 0-9 and "-"; "ambit" is reserved');
    else if (servers.has(name)) reject(`another server in this file has the same name "${name}"`);
    else {
      const read = readServer(name, value, prefixes);
      if (typeof read === 'string') reject(read);
      else {
        servers.set(name, read);
        problems.push(...listOddities(value as Record<string, unknown>).map((notes) => `${label}${notes}`));
      }
    }
  }
  return { servers: [...servers.values()], problems };
}

/** Whether an entry is the one with which a client reaches Ambit, as "ambit client" writes it. */
function isAmbitEntry(name: string, value: unknown): boolean {
  if (name !== 'ambit' || !isMap(value)) return false;
  const { url, command, args } = value;
  if (!Array.isArray(args)) return typeof url === 'string';
  // Another program of this name is reported as a problem, like every entry that is not loaded.
  return args.includes('stdio') && [command, ...(args as unknown[])].some((word) => ambitProgram.test(String(word)));
}

const ambitProgram = /(?:^|[\\/])ambit(?:\.js|\.cmd)?$|^ambit-mcp(?:@|$)/;

function readServer(name: string, value: unknown, prefixes: readonly string[]): ForeignServer | string {
  if (!isMap(value)) return 'expected a map';
  const statedType = value['type'] ?? value['transport'];
  const type = typeof statedType === 'string' ? (typeSpellings[statedType] ?? statedType) : statedType;
  if (type === 'ws') return `the transport "${type}" is not supported; only stdio and HTTP are`;
  const written: Record<string, unknown> = {};
  for (const key of takenKeys) if (value[key] !== undefined && value[key] !== null) written[key] = value[key];
  const root = { servers: { [name]: type === undefined ? written : { ...written, type } } };
  const parsed = wrappedServersSchema.safeParse(root);
  if (!parsed.success) {
    const [first] = explainIssues(parsed.error.issues, root);
    return first === undefined
      ? 'it is not valid'
      : `${showPath(withoutSecretKeys(first.path).slice(2))} ${first.message}`.trim();
  }
  const server = parsed.data.servers[name] as ServerDraft;
  for (const [variable, text] of Object.entries(server.transport === 'stdio' ? server.env : {})) {
    const refused = whyVariableRefused(variable, text, prefixes);
    if (refused !== undefined) return `env ${variable}: ${refused}`;
  }
  return { name, written: type === 'sse' ? { ...written, type } : written, server };
}

/** Lists settings of the file that Ambit handles differently. */
function listOddities(value: Record<string, unknown>): string[] {
  const notes: string[] = [];
  for (const key of ['command', 'args', 'env', 'url', 'headers']) {
    if (containsVariable(value[key])) notes.push(`.${key}: Ambit does not expand "\${…}"; it is passed on unchanged`);
  }
  if (value['cwd'] !== undefined) notes.push('.cwd: ignored; a server runs in the workspace of its session');
  if (value['envFile'] !== undefined) notes.push('.envFile: ignored; write the variables into "env"');
  return notes;
}

function stripComments(text: string): string {
  let kept = '';
  let from = 0;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === '"') at = endOfString(text, at);
    else if (text[at] === '/' && (text[at + 1] === '/' || text[at + 1] === '*')) {
      const end = endOfComment(text, at);
      kept += `${text.slice(from, at)} `;
      from = end;
      at = end - 1;
    }
  }
  return kept + text.slice(from);
}

function stripTrailingCommas(text: string): string {
  let kept = '';
  let from = 0;
  let comma = -1;
  for (let at = 0; at < text.length; at++) {
    const character = text[at] as string;
    if (character === '"') at = endOfString(text, at);
    if (character === ',') comma = at;
    else if (character === '}' || character === ']') {
      if (comma !== -1) {
        kept += text.slice(from, comma);
        from = comma + 1;
      }
      comma = -1;
    } else if (!' \n\r\t'.includes(character)) comma = -1;
  }
  return kept + text.slice(from);
}

/** The offset of the closing quote, or the end of the text without one. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at++) {
    if (text[at] === '\\') at++;
    else if (text[at] === '"') return at;
  }
  return text.length;
}

function endOfComment(text: string, start: number): number {
  const close = text[start + 1] === '/' ? '\n' : '*/';
  const end = text.indexOf(close, start + 2);
  return end === -1 ? text.length : close === '\n' ? end : end + 2;
}
