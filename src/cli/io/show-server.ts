import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { findRewriters } from '../../config/load/protect.ts';
import type { Config } from '../../config/schema/schema.ts';
import { isSecretName, redactedMark, withoutSecrets } from '../../lib/redact/without-secrets.ts';
import { scrub } from '../../observability/log/scrub.ts';
import { redacted } from '../../observability/log/secret-patterns.ts';
import type { ServerDefinition } from '../../upstreams/definition.ts';
import type { Pinned } from '../../upstreams/pins/pinned.ts';
import type { Places } from './config-paths.ts';

const hidden = '…';

const longest = 500;

/** Names that say of a value that it is a credential, beyond those of settings. */
const secretEnd = /(?:key|pass|pat|auth|cookie|dsn|jwt|session|signature|salt|pin|otp)$/i;

/** Long, without a sign between words, and with digits: nobody chose it. */
const random = /^(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+=-]{20,}$/;

const address = /^[a-z][a-z0-9+.-]*:\/\//i;

const option = /^(?:--[a-z][a-z-]*(?:[\s=]|$)|-[a-zA-Z](?:[\s./=]|$))/;

const relativePath = /^(?:\.{1,2}|~|file:)\//i;

/** Where a server is described, as short as it can be said. */
export function originOf(server: ServerDefinition, places: Places): string {
  if (server.source === 'operator') return 'configuration';
  if (server.source === 'imported') return `import ${server.file ?? ''}`.trim();
  const file = server.file ?? '';
  const shown = relative(`${places.configFile}/..`, file);
  return shown.length < file.length ? shown : file;
}

/** The lines that describe the command or address that an approval allows, without credentials and header values. */
export function whatWouldRun(pinned: Pinned, server: ServerDefinition): string[] {
  if (pinned.kind === 'http') {
    return [`  calls    ${pinned.url}`, ...listNames('headers', Object.keys(pinned.headers))];
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
    ...variablesOf(server),
  ];
}

/** Which of the files that would run a session could exchange between the last look and the start. */
export function whoCouldExchange(pinned: Pinned, config: Config): string[] {
  if (pinned.kind === 'http') return [];
  const { program, files } = pinned;
  const paths = [...('sha256' in program ? [program.path] : []), ...files.map(({ path }) => path)];
  return paths.flatMap((path) => {
    const rewriters = findRewriters(config, path);
    if (rewriters.length === 0) return [];
    return [`  ${path} lies in ${rewriters.join(', ')}: a sandboxed session there could exchange it while it starts.`];
  });
}

function variablesOf(server: ServerDefinition): string[] {
  if (server.kind !== 'stdio') return [];
  return Object.entries(server.env).map(([name, value]) => `  env      ${name}=${shownValue(name, value)}`);
}

function listNames(what: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`  ${what.padEnd(8)} ${names.join(', ')}`];
}

function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word);
}

/**
 * The value of a variable as whoever approves a server sees it. A credential is shown as `…`. A path, an option or an
 * address is always shown, whatever its variable is called: it can decide what runs.
 */
export function shownValue(name: string, value: string): string {
  const plain = scrub(withoutSecrets(value)).replaceAll(redactedMark, hidden).replaceAll(redacted, hidden);
  if (decides(value)) return shorten(plain);
  if (isSecretName(name) || secretEnd.test(name)) return hidden;
  // A path may look random. What does not exist cannot be told from a credential that begins with a slash.
  if (value.startsWith('/')) return shorten(plain);
  return plain !== value || random.test(value) ? hidden : shorten(plain);
}

function decides(value: string): boolean {
  return (
    address.test(value) || option.test(value) || relativePath.test(value) || (value.startsWith('/') && exists(value))
  );
}

function exists(path: string): boolean {
  return !path.includes('\0') && existsSync(path);
}

function shorten(text: string): string {
  return text.length <= longest ? text : `${text.slice(0, longest)}… (${text.length - longest} characters more)`;
}
