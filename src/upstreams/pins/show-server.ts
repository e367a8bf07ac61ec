import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { renderEntries } from '../../config/edit/edit-servers.ts';
import { findRewriters } from '../../config/load/out-of-reach.ts';
import type { Config } from '../../config/schema/schema.ts';
import { isMap } from '../../config/schema/schema-parts.ts';
import { isSecretName, redactedMark, redactLine } from '../../lib/redact/redact-line.ts';
import { createScrubber, listSecretArguments, redactedText, scrubWhole } from '../../observability/log/scrub.ts';
import type { ServerDefinition } from '../definition.ts';
import type { ServerPins } from './server-pins.ts';

const hiddenMark = '…';

/** Names of variables that hold credentials, beyond those of settings. */
const secretEnd = /(?:key|pass|pat|auth|cookie|dsn|jwt|session|signature|salt|pin|otp)$/i;

/** A long value with digits and without separators was not chosen by a person. */
const randomValue = /^(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{20,}$/;
const addressPattern = /^[a-z][a-z0-9+.-]*:\/\//i;
const optionPattern = /^(?:--[a-z][a-z-]*(?:[\s=]|$)|-[a-zA-Z](?:[\s./=]|$))/;
const relativePath = /^(?:\.{1,2}|~|file:)\//i;

/** The file that declares a server, in the shortest form. */
export function serverOrigin(server: ServerDefinition, paths: { readonly configFile: string }): string {
  if (server.source === 'operator') return 'configuration';
  if (server.source === 'imported') return `import ${server.file ?? ''}`.trim();
  const file = server.file ?? '';
  const shown = relative(`${paths.configFile}/..`, file);
  return shown.length < file.length ? shown : file;
}

/** Describes the command or address that an approval allows, without credentials and header values. */
export function describeCommand(pinned: ServerPins, server: ServerDefinition): string[] {
  if (pinned.kind === 'http') {
    const headers = Object.keys(pinned.headers).join(', ');
    return [`  calls    ${pinned.url}`, ...(headers === '' ? [] : [`  headers  ${headers}`])];
  }
  const { program } = pinned;
  const found = 'missing' in program ? program.missing : program.real;
  return [
    `  runs     ${[pinned.command, ...pinned.args].map(quoteWord).join(' ')}`,
    `  program  ${found}`,
    ...pinned.files.map(({ path, real, sha256 }) => {
      const leads = path === real ? '' : ` → ${real}`;
      return `  file     ${path}${leads} (sha256 ${sha256?.slice(0, 12)}…)`;
    }),
    ...(pinned.package === undefined
      ? []
      : [`  package  ${pinned.package.name} ${pinned.package.version} (${pinned.package.integrity})`]),
    ...renderVariables(server),
  ];
}

/**
 * Renders an entry of the configuration as added (`+`) or removed (`-`) lines. Values of variables and headers that look
 * like credentials are hidden. The arguments and the URL of an added server are shown as they are, because they decide
 * what runs: any part that is hidden could be code.
 */
export function renderEntryLines(sign: '+' | '-', name: string, entry: Readonly<Record<string, unknown>>): string[] {
  const { env, headers, args, url } = entry;
  const isRemoved = sign === '-';
  const shown = {
    ...entry,
    ...(isRemoved && Array.isArray(args) ? { args: hideArguments(args.map(String)) } : {}),
    ...(isRemoved && typeof url === 'string' ? { url: URL.canParse(url) ? hideUrlValues(url) : hiddenMark } : {}),
    ...(isMap(env) ? { env: mapValues(env, (key, value) => renderValue(key, String(value))) } : {}),
    ...(isMap(headers) ? { headers: mapValues(headers, () => hiddenMark) } : {}),
  };
  const text = renderEntries([{ name, origin: '', entry: shown }]).trimEnd();
  return text.split('\n').map((line) => `${sign}   ${line}`);
}

function mapValues(map: Record<string, unknown>, change: (key: string, value: unknown) => string) {
  return Object.fromEntries(Object.entries(map).map(([key, value]) => [key, change(key, value)]));
}

/** Names the files that a session could replace between the check and the start. */
export function describeRewriters(pinned: ServerPins, config: Config): string[] {
  if (pinned.kind === 'http') return [];
  const { program, files } = pinned;
  const paths = [...('sha256' in program ? [program.path] : []), ...files.map(({ path }) => path)];
  return paths.flatMap((path) => {
    const rewriters = findRewriters(config, path);
    if (rewriters.length === 0) return [];
    return [`  ${path} is in ${rewriters.join(', ')}: a sandboxed session there could replace it while it starts.`];
  });
}

function renderVariables(server: ServerDefinition): string[] {
  if (server.kind !== 'stdio') return [];
  return Object.entries(server.env).map(([name, value]) => `  env      ${name}=${renderValue(name, value)}`);
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word);
}

/** A variable as the person who approves a server sees it. */
export function renderVariable(name: string, value: string): { readonly name: string; readonly value: string } {
  return { name, value: renderValue(name, value) };
}

/**
 * The value of a variable as the person who approves a server sees it. A credential is shown as `…`. A path, an option
 * or an address is always shown, whatever its variable is called: it can decide what runs.
 */
export function renderValue(name: string, value: string): string {
  const plain = hideCredentials(value);
  if (decidesWhatRuns(value)) return plain;
  if (isSecretName(name) || secretEnd.test(name)) return hiddenMark;
  // A path may look random. A path that does not exist cannot be told from a credential that begins with a slash.
  if (value.startsWith('/')) return plain;
  return plain !== value || randomValue.test(value) ? hiddenMark : plain;
}

/**
 * The arguments of a program without credentials, such as the word after `--token`. Only for readers who approve nothing:
 * a part that looks like a credential can be code.
 */
export function hideArguments(args: readonly string[]): string[] {
  const secrets = new Set(listSecretArguments(args).filter((secret) => secret !== ''));
  const scrub = createScrubber(secrets);
  return args.map((arg) => (secrets.has(arg) ? hiddenMark : hideSecrets(scrub(arg))));
}

/** A URL without user name, password, fragment, and the values of its query. */
export function hideUrlValues(address: string | URL): string {
  const { protocol, host, pathname, searchParams } = new URL(address);
  const path = pathname
    .split('/')
    .map((part) => (randomPart.test(part) ? hiddenMark : part))
    .join('/');
  const query = [...searchParams.keys()].map((name) => `${encodeURIComponent(name)}=${hiddenMark}`).join('&');
  return hideSecrets(`${protocol}//${host}${path}${query === '' ? '' : `?${query}`}`);
}

const queryValue = /([?&][^\s=&#?]{1,200}=)[^\s&#]+/g;
const urlPattern = /(?<=[a-z0-9]:\/\/)[^\s?#"'<>]+/gi;
/** Parts of a path that nobody chose: hexadecimal numbers, and long mixtures of letters and digits. */
const randomPart =
  /^(?:(?=.*[0-9])(?=.*[a-f])[0-9a-f-]{24,}|(?=.*[0-9])(?=.*[a-z])(?=.*[A-Z])[\w~.%+=-]{16,}|(?=.*[0-9])(?=.*[a-z])[a-z0-9]{20,})$/;

/** The hash of a commit or file. It says what runs, so whoever approves it must see it. */
const contentHash = /^(?:[0-9a-f]{40}|[0-9a-f]{64})$/;

/** Hides the parts of a path that work like a password, as in the addresses that some services give to each customer. */
function hidePathSecrets(hostAndPath: string): string {
  const [host = '', ...parts] = hostAndPath.split('/');
  const shown = parts.map((part) => (randomPart.test(part) && !contentHash.test(part) ? hiddenMark : part));
  return [host, ...shown].join('/');
}

/** A text about a server, such as a difference to its approval, without credentials and values in URLs. */
export function hideSecrets(text: string): string {
  if (!text.includes('://')) return hideCredentials(text);
  return hideCredentials(text.replace(queryValue, `$1${hiddenMark}`).replace(urlPattern, hidePathSecrets));
}

function hideCredentials(text: string): string {
  return scrubWhole(redactLine(text)).replaceAll(redactedMark, hiddenMark).replaceAll(redactedText, hiddenMark);
}

function decidesWhatRuns(value: string): boolean {
  return (
    addressPattern.test(value) ||
    optionPattern.test(value) ||
    relativePath.test(value) ||
    (value.startsWith('/') && !value.includes('\0') && existsSync(value))
  );
}
