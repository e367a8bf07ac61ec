import { statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';
import type { Config, ConfigDraft } from '../schema/schema.ts';

/**
 * The role of a configured file or folder. A secret must be out of reach of every session. A setting must not be
 * rewritten by one. An included file belongs to a project, and is hidden where a session could read it. A given file or
 * folder is meant for sessions.
 */
type FileRole = 'secret' | 'setting' | 'included' | 'given';

/**
 * Every key that names a file or folder; `*` stands for any name or list index. A test compares this with the schema.
 */
export const fileKeys = {
  'listen.tls.cert': 'setting',
  'listen.tls.key': 'secret',
  'credentials.keyFile': 'secret',
  'events.webhook.secretFile': 'secret',
  'servers.*.oauth.clientSecretFile': 'secret',
  'include.*': 'included',
  'servers.*.sandbox.readable.*': 'given',
  'servers.*.sandbox.writable.*': 'given',
  'workspaces.*.path': 'given',
} as const satisfies Record<string, FileRole>;

interface ConfiguredFile {
  /** The key that names it, as it is written. */
  readonly key: string;
  readonly path: string;
}

/** Finds the configured files of one role, with resolved paths. */
export function findConfiguredFiles(config: Pick<Config, keyof Config>, role: FileRole): ConfiguredFile[] {
  return Object.entries(fileKeys).flatMap(([key, found]) =>
    found === role ? findValues(config, key.split('.'), []) : [],
  );
}

function findValues(value: unknown, names: readonly string[], above: readonly string[]): ConfiguredFile[] {
  const [name, ...rest] = names;
  if (name === undefined) return typeof value === 'string' ? [{ key: above.join('.'), path: value }] : [];
  if (typeof value !== 'object' || value === null) return [];
  const members = name === '*' ? Object.entries(value) : Object.entries(value).filter(([key]) => key === name);
  return members.flatMap(([key, inner]) => findValues(inner, rest, [...above, key]));
}

/** Resolves a configured path: `~/` is the home folder, other paths are relative to the folder of the file. */
function resolvePath(path: string, folder: string, home: string): string {
  if (path === '~' || path.startsWith('~/')) return resolve(home, `.${path.slice(1)}`);
  return resolve(folder, path);
}

export function resolvePaths(config: ConfigDraft, folder: string, home: string): ConfigDraft {
  const absolute = (path: string): string => resolvePath(path, folder, home);
  const { tls, ...listen } = config.listen;
  const { webhook } = config.events;
  const servers = Object.entries(config.servers).map(([name, server]) => {
    if (server.transport === 'http') {
      const { oauth } = server;
      if (oauth?.clientSecretFile === undefined) return [name, server] as const;
      return [name, { ...server, oauth: { ...oauth, clientSecretFile: absolute(oauth.clientSecretFile) } }] as const;
    }
    const { sandbox } = server;
    const paths = { readable: sandbox.readable.map(absolute), writable: sandbox.writable.map(absolute) };
    return [name, { ...server, sandbox: { ...sandbox, ...paths } }] as const;
  });
  const workspaces = Object.entries(config.workspaces).map(
    ([slug, workspace]) =>
      [slug, workspace.path === undefined ? workspace : { ...workspace, path: absolute(workspace.path) }] as const,
  );
  const { keyFile } = config.credentials;
  return {
    ...config,
    credentials: keyFile === undefined ? {} : { keyFile: absolute(keyFile) },
    listen: tls === undefined ? listen : { ...listen, tls: { cert: absolute(tls.cert), key: absolute(tls.key) } },
    events:
      webhook?.secretFile === undefined
        ? config.events
        : { webhook: { ...webhook, secretFile: absolute(webhook.secretFile) } },
    include: config.include.map(absolute),
    servers: Object.fromEntries(servers),
    workspaces: Object.fromEntries(workspaces),
  };
}

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    // The path is missing, too long or contains a NUL.
    return false;
  }
}

/**
 * Resolves relative arguments that name files beside the configuration, because the server runs in the workspace.
 * Folders are left alone, since `.` and `src` mean the workspace.
 */
export function resolveArgs(args: readonly string[], configDir: string): string[] {
  return args.map((arg) => {
    if (arg === '' || arg.startsWith('-') || isAbsolute(arg)) return arg;
    const path = resolve(configDir, arg);
    return isFile(path) ? path : arg;
  });
}

/** Resolves a command with a slash relative to the configuration; a bare name is looked up on PATH. */
export function resolveCommand(command: string, configDir: string): string {
  return command.includes('/') ? resolve(configDir, command) : command;
}
