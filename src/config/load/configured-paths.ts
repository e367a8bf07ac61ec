import { statSync } from 'node:fs';
import { basename, isAbsolute, normalize, resolve } from 'node:path';
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
  'auth.keys.secretFile': 'secret',
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
  const resolveWorkspaces = (workspaces: ConfigDraft['workspaces']) =>
    Object.fromEntries(
      Object.entries(workspaces).map(
        ([slug, workspace]) =>
          [slug, workspace.path === undefined ? workspace : { ...workspace, path: absolute(workspace.path) }] as const,
      ),
    );
  const { keyFile } = config.credentials;
  const { keys } = config.auth;
  return {
    ...config,
    auth:
      keys?.secretFile === undefined
        ? config.auth
        : { ...config.auth, keys: { ...keys, secretFile: absolute(keys.secretFile) } },
    credentials: keyFile === undefined ? {} : { keyFile: absolute(keyFile) },
    listen: tls === undefined ? listen : { ...listen, tls: { cert: absolute(tls.cert), key: absolute(tls.key) } },
    events:
      webhook?.secretFile === undefined
        ? config.events
        : { webhook: { ...webhook, secretFile: absolute(webhook.secretFile) } },
    include: config.include.map(absolute),
    servers: Object.fromEntries(servers),
    workspaces: resolveWorkspaces(config.workspaces),
    workspacePatterns: resolveWorkspaces(config.workspacePatterns),
  };
}

type EntryKind = 'file' | 'folder';

function findKind(path: string): EntryKind | undefined {
  try {
    const stats = statSync(path);
    return stats.isFile() ? 'file' : stats.isDirectory() ? 'folder' : undefined;
  } catch {
    // The path is missing, too long or contains a NUL.
    return undefined;
  }
}

/** Programs whose first argument is a package, even if a folder has the same name. */
const packageTools = new Set(['npx', 'bunx', 'pnpx', 'uvx', 'pipx']);
const packageFlags = new Set(['-p', '--package', '--from']);
/** Arguments that are followed by the name of a module or script, even if a folder has the same name. */
const nameFlags = new Set(['-m', 'run', 'exec', 'dlx', 'x']);

/** Finds the arguments that name a package, module or script. Only `./` or `../` before the name makes it a path. */
function findNames(command: string, args: readonly string[]): ReadonlySet<number> {
  const names = new Set(args.flatMap((arg, i) => (nameFlags.has(arg) ? [i + 1] : [])));
  if (packageTools.has(basename(command))) {
    const positions = args.flatMap((arg, i) => (arg.startsWith('-') ? [] : [i]));
    for (const i of positions.slice(0, args.some((arg) => packageFlags.has(arg)) ? 2 : 1)) names.add(i);
  }
  return new Set([...names].filter((i) => args[i]?.startsWith('.') !== true));
}

/** Whether a path comes down to dots, as `.` and `src/..` do, and so means the folder that it starts from or one above. */
export function isDotPath(path: string): boolean {
  return path !== '' && /^\.{1,2}(?:\/+\.{0,2})*$/.test(normalize(path));
}

interface ServerCommand {
  readonly command: string;
  readonly args: readonly string[];
}

interface ResolveArgsOptions {
  /** Whether `.` and `..` start from the folder too. Else they stay, and mean the working directory of the server. */
  readonly withDots?: boolean;
}

/**
 * Resolves relative arguments that name files or folders beside the configuration, because the server runs in the
 * workspace. `.` and `..` of a configured server stay: they would hand it the configuration itself.
 */
export function resolveArgs(
  { command, args }: ServerCommand,
  configDir: string,
  { withDots = false }: ResolveArgsOptions = {},
): string[] {
  const names = findNames(command, args);
  return args.map((arg, i) => {
    if (arg === '' || arg.startsWith('-') || isAbsolute(arg) || (isDotPath(arg) && !withDots)) return arg;
    const path = resolve(configDir, arg);
    const kind = findKind(path);
    return kind === undefined || (kind === 'folder' && names.has(i)) ? arg : path;
  });
}

/** Resolves a command with a slash relative to the configuration; a bare name is looked up on PATH. */
export function resolveCommand(command: string, configDir: string): string {
  return command.includes('/') ? resolve(configDir, command) : command;
}
