import { relative } from 'node:path';
import { findRewriters } from '../../../config/load/protect.ts';
import type { Config } from '../../../config/schema/schema.ts';
import type { ServerDefinition } from '../../../upstreams/definition.ts';
import type { Pinned } from '../../../upstreams/pins/server-pins.ts';
import type { Places } from '../../io/places.ts';
import { shownValue } from '../../io/show-values.ts';

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
    return [`  calls    ${pinned.url}`, ...named('headers', Object.keys(pinned.headers))];
  }
  const { program } = pinned;
  const found = 'missing' in program ? program.missing : program.real;
  return [
    `  runs     ${[pinned.command, ...pinned.args].map(quoted).join(' ')}`,
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

function named(what: string, names: readonly string[]): string[] {
  return names.length === 0 ? [] : [`  ${what.padEnd(8)} ${names.join(', ')}`];
}

function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : JSON.stringify(word);
}
