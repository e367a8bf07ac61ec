import { existsSync, readFileSync, statSync } from 'node:fs';
import { homedir } from 'node:os';
import { delimiter, isAbsolute, join, sep } from 'node:path';
import { isMap } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { resolveIfPresent } from '../../lib/fs/if-present.ts';
import { findExposure } from '../../lib/fs/private-files.ts';
import { commandLine, manifest } from '../../package-paths.ts';
import { printLines } from '../io/ask.ts';
import { addListItem, jsonFormat } from './json-format.ts';
import { tomlFormat } from './toml-format.ts';

export type Variables = Readonly<Record<string, string | undefined>>;
/** One server in the form that a client expects. */
export type ClientEntry = Readonly<Record<string, unknown>>;

/** Reads and edits the files of a client as text, so that everything else in them stays as it is. */
export interface ClientFormat {
  /** The value at the path; undefined where there is none. */
  readEntry(text: string, path: readonly string[]): unknown;
  /** Adds or replaces the value at the path; removes it when undefined. Throws when it cannot do only that. */
  setEntry(text: string, path: readonly string[], value: ClientEntry | readonly unknown[] | undefined): string;
  /** A file that holds nothing but this entry. */
  renderSnippet(path: readonly string[], value: ClientEntry | readonly unknown[]): string;
  /** The text for display: strings that are not among those shown are hidden, and so are comments. */
  maskText(text: string, shown: ReadonlySet<string>): string;
}

/** The folders in which clients keep files of a user. */
interface UserFolders {
  readonly home: string;
  /** The settings of desktop applications. */
  readonly apps: string;
  /** `$XDG_CONFIG_HOME`, else `~/.config`. */
  readonly config: string;
  readonly platform: NodeJS.Platform;
  /** The folder that a variable names, else the other one. */
  folder(variable: string, otherwise: string): string;
}

/** A question that VS Code asks once, and whose answer it keeps encrypted. */
export interface ClientInput {
  readonly id: string;
  readonly [key: string]: unknown;
}

export interface McpClient {
  readonly name: string;
  readonly title: string;
  readonly format: ClientFormat;
  /** The keys that lead to the map of servers. */
  readonly path: readonly string[];
  /** The files with the servers of a user. The first one is written, unless only another exists. */
  files(folders: UserFolders): readonly string[];
  /** The file with the servers of one project, relative to its folder. */
  readonly projectFile?: string;
  /** Whether `ambit import` reads its files. */
  readonly isImported?: true;
  /** A file of earlier versions, which `ambit import` reads too. */
  olderFile?(folders: UserFolders): string;
  describeCommand(command: string, args: readonly string[]): ClientEntry;
  /** An HTTP server whose token comes from the environment or a question; a sentence where the client has no way for that. */
  readonly describeUrl: string | ((url: string) => ClientEntry);
  /** The question that `describeUrl` refers to. */
  readonly input?: ClientInput;
  /** A sentence on how the client notices a change. */
  readonly restart: string;
}

/** The name of Ambit in the files of clients. */
export const entryName = 'ambit';
/** The variable with the session token or key that a client sends to a gateway. */
export const tokenVariable = 'AMBIT_SESSION_TOKEN';

const inputId = 'ambit-session-token';
const bearer = (reference: string) => ({ headers: { Authorization: `Bearer ${reference}` } });
const stdioOnly = 'Leave out --url: the client then starts "ambit stdio", which uses the same configuration and store.';

/**
 * All clients that Ambit knows. Each format was compared in November 2026 with the documentation named, and with the
 * release named where the client could be started.
 */
export const mcpClients: readonly McpClient[] = [
  {
    // https://code.claude.com/docs/en/mcp (scopes, `${VAR}` in headers); release 2.1.197
    name: 'claude-code',
    title: 'Claude Code',
    format: jsonFormat,
    path: ['mcpServers'],
    files: ({ folder, home }) => [join(folder('CLAUDE_CONFIG_DIR', home), '.claude.json')],
    projectFile: '.mcp.json',
    isImported: true,
    describeCommand: (command, args) => ({ type: 'stdio', command, args }),
    describeUrl: (url) => ({ type: 'http', url, ...bearer(`\${${tokenVariable}}`) }),
    restart: 'Restart Claude Code; "claude mcp list" shows whether it connects.',
  },
  {
    // https://modelcontextprotocol.io/docs/develop/connect-local-servers (file, fields, restart)
    name: 'claude-desktop',
    title: 'Claude Desktop',
    format: jsonFormat,
    path: ['mcpServers'],
    files: ({ apps }) => [join(apps, 'Claude', 'claude_desktop_config.json')],
    isImported: true,
    describeCommand: (command, args) => ({ command, args }),
    describeUrl: `The file of Claude Desktop lists only servers that it starts itself, no URLs. ${stdioOnly}`,
    restart: 'Quit Claude Desktop completely, then start it again.',
  },
  {
    // https://cursor.com/docs/mcp (files, fields, `${env:NAME}` in headers)
    name: 'cursor',
    title: 'Cursor',
    format: jsonFormat,
    path: ['mcpServers'],
    files: ({ home }) => [join(home, '.cursor', 'mcp.json')],
    projectFile: join('.cursor', 'mcp.json'),
    isImported: true,
    describeCommand: (command, args) => ({ command, args }),
    describeUrl: (url) => ({ url, ...bearer(`\${env:${tokenVariable}}`) }),
    restart: 'Restart Cursor, and switch the server on in its settings if it is off.',
  },
  {
    // https://code.visualstudio.com/docs/copilot/reference/mcp-configuration, and the schema in microsoft/vscode,
    // src/vs/workbench/contrib/mcp/common/mcpConfiguration.ts. Inputs are the documented way for secrets in headers.
    name: 'vscode',
    title: 'VS Code',
    format: jsonFormat,
    path: ['servers'],
    files: ({ apps }) => [join(apps, 'Code', 'User', 'mcp.json')],
    olderFile: ({ apps }) => join(apps, 'Code', 'User', 'settings.json'),
    projectFile: join('.vscode', 'mcp.json'),
    isImported: true,
    describeCommand: (command, args) => ({ type: 'stdio', command, args }),
    describeUrl: (url) => ({ type: 'http', url, ...bearer(`\${input:${inputId}}`) }),
    input: {
      id: inputId,
      type: 'promptString',
      description: 'Session token or key for Ambit',
      password: true,
    },
    restart: 'VS Code reloads the file by itself; start the server in the list of MCP servers.',
  },
  {
    // https://developers.openai.com/codex/mcp and codex-rs/core/config.schema.json in openai/codex; release 0.166.0
    name: 'codex',
    title: 'Codex',
    format: tomlFormat,
    path: ['mcp_servers'],
    files: ({ folder, home }) => [join(folder('CODEX_HOME', join(home, '.codex')), 'config.toml')],
    projectFile: join('.codex', 'config.toml'),
    describeCommand: (command, args) => ({ command, args }),
    describeUrl: (url) => ({ url, bearer_token_env_var: tokenVariable }),
    restart: 'Restart Codex; "codex mcp list" shows the entry.',
  },
  {
    // https://geminicli.com/docs/tools/mcp-server (`httpUrl`, `$VAR`); release 0.61.0
    name: 'gemini',
    title: 'Gemini CLI',
    format: jsonFormat,
    path: ['mcpServers'],
    files: ({ folder, home }) => [join(folder('GEMINI_CLI_HOME', home), '.gemini', 'settings.json')],
    projectFile: join('.gemini', 'settings.json'),
    describeCommand: (command, args) => ({ command, args }),
    describeUrl: (url) => ({ httpUrl: url, ...bearer(`\${${tokenVariable}}`) }),
    restart: 'Restart Gemini CLI, in a folder that it trusts; "gemini mcp list" shows whether it connects.',
  },
  {
    // https://opencode.ai/docs/mcp-servers and https://opencode.ai/config.json; release 1.18.33. Version 2 reads this form too.
    name: 'opencode',
    title: 'opencode',
    format: jsonFormat,
    path: ['mcp'],
    files: ({ config }) => ['opencode.json', 'opencode.jsonc'].map((file) => join(config, 'opencode', file)),
    projectFile: 'opencode.json',
    describeCommand: (command, args) => ({ type: 'local', command: [command, ...args], enabled: true }),
    describeUrl: (url) => ({
      type: 'remote',
      url,
      ...bearer(`{env:${tokenVariable}}`),
      oauth: false,
      enabled: true,
    }),
    restart: 'Restart opencode; "opencode mcp list" shows whether it connects.',
  },
  {
    // https://zed.dev/docs/ai/mcp; headers are sent as written: https://github.com/zed-industries/zed/issues/60459
    name: 'zed',
    title: 'Zed',
    format: jsonFormat,
    path: ['context_servers'],
    files: ({ apps, config, platform }) => [
      platform === 'win32' ? join(apps, 'Zed', 'settings.json') : join(config, 'zed', 'settings.json'),
    ],
    projectFile: join('.zed', 'settings.json'),
    describeCommand: (command, args) => ({ command, args }),
    describeUrl: `Zed sends headers as they are written, so a token would have to be in the file. ${stdioOnly}`,
    restart: 'Zed reloads the file by itself.',
  },
];

export function findUserFolders(env: Variables, platform: NodeJS.Platform = process.platform): UserFolders {
  const folder = (variable: string, otherwise: string): string => {
    const value = env[variable];
    return value !== undefined && isAbsolute(value) ? value : otherwise;
  };
  const home = folder(platform === 'win32' ? 'USERPROFILE' : 'HOME', homedir());
  const config = folder('XDG_CONFIG_HOME', join(home, '.config'));
  const apps =
    platform === 'darwin'
      ? join(home, 'Library', 'Application Support')
      : platform === 'win32'
        ? folder('APPDATA', join(home, 'AppData', 'Roaming'))
        : config;
  return { home, apps, config, platform, folder };
}

/** The file that Ambit writes for a user: the one that exists, else the usual one. */
export function chooseUserFile(client: McpClient, folders: UserFolders): string {
  const files = client.files(folders);
  return files.find((file) => existsSync(file)) ?? (files[0] as string);
}

/** The file of a client that a command is about. */
export interface ClientTarget {
  readonly client: McpClient;
  readonly file: string;
  readonly isProject: boolean;
  readonly path: readonly string[];
}

/** Claude Code keeps more than servers in its file, which may grow to some megabytes. */
const maxBytes = 33_554_432;

/** Reads a file; undefined if there is none. */
export function readClientFile(file: string): string | undefined {
  if (!existsSync(file)) return undefined;
  const { size } = statSync(file);
  if (!statSync(file).isFile()) throw new AmbitError('CONFIG_INVALID', { what: 'it is not a plain file' });
  if (size > maxBytes) throw new AmbitError('CONFIG_INVALID', { what: 'it is larger than 32 MiB' });
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(readFileSync(file));
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new AmbitError('CONFIG_INVALID', { what: 'it is not UTF-8 text', cause: error });
  }
}

/** Whether the client asks for the token that the entry refers to. */
export const usesInput = ({ input }: McpClient, entry: ClientEntry): boolean =>
  input !== undefined && JSON.stringify(entry).includes(`{input:${input.id}}`);

/** Adds the entry to the text of a file, and the question that it refers to. */
export function addEntry({ client, path }: ClientTarget, text: string, entry: ClientEntry): string {
  const added = client.format.setEntry(text, path, entry);
  return client.input !== undefined && usesInput(client, entry) ? addListItem(added, 'inputs', client.input) : added;
}

const maxListed = 8;

/** Names the servers that the client still starts itself, since neither the sandbox nor the rules apply to them. */
export function describeOtherServers({ client }: ClientTarget, text: string): string[] {
  const listed = client.format.readEntry(text, client.path);
  const names = isMap(listed) ? Object.keys(listed).filter((name) => name !== entryName) : [];
  if (names.length === 0) return [];
  const rest = names.length > maxListed ? ` and ${names.length - maxListed} more` : '';
  return [
    `! ${client.title} also uses these servers directly, without Ambit: ${names.slice(0, maxListed).join(', ')}${rest}`,
    '  Remove those that Ambit offers from the file.',
  ];
}

/** A program with its first arguments. */
export interface Program {
  readonly command: string;
  readonly args: readonly string[];
}

/** Folders in which package runners keep what they fetch, until they clean up. */
const runnerCache = /^(?:_npx|dlx.*|bunx-.*)$/;

/**
 * Node and the file of this installation. Desktop applications have no PATH of a shell, so neither `ambit` nor `node` alone
 * would be found.
 */
export function findProgram(env: Variables): Program {
  if (commandLine.split(sep).some((part) => runnerCache.test(part))) {
    const { name, version } = JSON.parse(readFileSync(manifest, 'utf8')) as { name: string; version: string };
    printLines([
      '! Ambit runs from the cache of a package runner, so the client will fetch it with npx.',
      `  Install it to start it without the registry: npm install --global ${name}`,
    ]);
    return { command: 'npx', args: ['-y', `${name}@${version}`] };
  }
  const onPath = (env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, 'node'));
  return {
    command: findStableLink(process.execPath, onPath),
    args: [findStableLink(commandLine, [process.argv[1] ?? ''])],
  };
}

/** A link to the file, if nobody else can change it. Links outlive updates, whose files often have other paths. */
function findStableLink(file: string, links: readonly string[]): string {
  const real = resolveIfPresent(file);
  const link = links.find(
    (each) =>
      isAbsolute(each) &&
      !each.includes(`${sep}node_modules${sep}`) &&
      resolveIfPresent(each) === real &&
      findExposure(each) === undefined,
  );
  return link ?? file;
}

const hiddenKeys = new Set(['env', 'environment', 'headers', 'http_headers']);

/** The strings of an entry, without values of variables and headers unless they are references. */
export function listShownStrings(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (Array.isArray(value)) return value.flatMap(listShownStrings);
  if (!isMap(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) =>
    listShownStrings(inner).filter((text) => !hiddenKeys.has(key) || isReference.test(text)),
  );
}

const isReference = /^Bearer \$?\{[\w:-]+\}$/;
