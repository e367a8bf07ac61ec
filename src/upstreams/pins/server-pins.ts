import { accessSync, closeSync, constants, existsSync, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';
import { isInside } from '../../config/load/resolve-symlinks.ts';
import { hashValues } from '../../lib/json/canonical-json.ts';
import type { HttpServer, StdioServer } from '../definition.ts';
import type { FileHashes } from './file-hashes.ts';
import {
  findArgFiles,
  findCodeOption,
  findStartedLanguages,
  findValueFiles,
  isDataFile,
  isFolder,
  tooManyFiles,
} from './named-files.ts';

const defaultPath = '/usr/local/bin:/usr/bin:/bin';

type StdioVariant<T> = Extract<T, { kind: 'stdio' }>;

/** The part of a server that an approval needs. */
export type ApprovableServer =
  | Pick<StdioServer, 'name' | 'source' | 'folder' | 'kind' | 'command' | 'args' | 'env'>
  | Pick<HttpServer, 'name' | 'source' | 'folder' | 'kind' | 'url' | 'headers'>;

export interface FilePin {
  /** The path as the command line names it. */
  readonly path: string;
  /** The path after links are followed. */
  readonly real: string;
  /** Left out for programs of the system. */
  readonly sha256?: string;
}

/** A package that the command names, as it was fetched. */
export interface FetchedPackagePin {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

/** Finds the fetched package of a command; undefined where there is none. */
export type FindFetchedPackage = (command: string, args: readonly string[]) => FetchedPackagePin | undefined;

/** Everything that decides what runs, or which address is called, when a server is used. */
export type ServerPins =
  | {
      readonly kind: 'stdio';
      readonly folder: string;
      readonly command: string;
      readonly program: FilePin | { readonly missing: string };
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly files: readonly FilePin[];
      readonly package?: FetchedPackagePin | undefined;
    }
  | {
      readonly kind: 'http';
      readonly folder: string;
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
    };

/** Reads the pins of a server as it is now, files included. */
export function readServerPins(
  server: ApprovableServer,
  files: FileHashes,
  searchPath: string | undefined,
  fetched?: FindFetchedPackage,
): ServerPins {
  const { folder } = server;
  if (server.kind === 'http') {
    return { kind: 'http', folder, url: server.url.href, headers: hashValues(server.headers) };
  }
  const named = fetched?.(server.command, server.args);
  const paths = findPinnedPaths(server);
  return {
    kind: 'stdio',
    folder,
    command: server.command,
    program: paths === undefined ? { missing: tooManyFiles } : findProgram(server.command, searchPath, folder, files),
    args: [...server.args],
    env: hashValues(server.env),
    files: (paths ?? [])
      .filter((path) => existsSync(path))
      .flatMap((path) => {
        const found = files.hash(path);
        return found === undefined ? [] : [{ path, real: found.real, sha256: found.sha256 }];
      }),
    ...(named === undefined ? {} : { package: named }),
  };
}

/** Finds the files that decide what runs. Data files in variables are left out, since they change all the time. */
function findPinnedPaths(server: StdioVariant<ApprovableServer>): string[] | undefined {
  const { folder, env } = server;
  const ofArgs = findArgFiles(server, folder);
  if (ofArgs === undefined) return undefined;
  const ofValues = findValueFiles(server, Object.values(env), folder);
  if (ofValues === undefined) return undefined;
  return [...new Set([...ofArgs, ...ofValues.filter((path) => !isDataFile(path))])].sort();
}

/** Describes each thing that may decide what a server runs but is not pinned. */
export function describeUnpinned(pinned: ServerPins, server: ApprovableServer): string[] {
  if (pinned.kind === 'http' || server.kind === 'http') return [];
  return [...describeUnpinnedCommand(pinned, server), ...describeUnpinnedVariables(server)];
}

function describeUnpinnedCommand(pinned: StdioVariant<ServerPins>, server: StdioVariant<ApprovableServer>): string[] {
  const languages = findStartedLanguages(server);
  if (languages.length === 0) return [];
  const code = findCodeOption(server.args, languages);
  if (code !== undefined) {
    const option = /^-*[\w-]*/.exec(code)?.[0];
    return [
      `The argument of ${option} is code. Only files that it names with a full path are pinned; it may run others.`,
    ];
  }
  if (/(?:^|\/)(?:npm|pnpm|yarn)$/.test(server.command)) {
    return ['The program is not pinned: package.json defines it.'];
  }
  const named = new Set(findArgFiles(server, server.folder));
  if (pinned.files.some(({ path }) => named.has(path) && !isDataFile(path))) return [];
  return [`The script is not pinned: no script was found that ${server.command} would start.`];
}

function describeUnpinnedVariables(server: StdioVariant<ApprovableServer>): string[] {
  return Object.entries(server.env).flatMap(([name, value]) => {
    const places = (findValueFiles(server, [value], server.folder) ?? []).filter((path) => path !== server.folder);
    return places.flatMap((path) => {
      if (isFolder(path) && value.includes('/') && path !== '/') {
        return [`${name} names the folder ${path}; its content is not pinned.`];
      }
      return existsSync(path) && isDataFile(path)
        ? [`${name} names ${path}, which is treated as data and is not pinned.`]
        : [];
    });
  });
}

/**
 * Finds the file that a command starts. Its content is pinned when it is a script, is named by a path, or is in the
 * project. A program of the system may be updated, but must stay the same file.
 */
function findProgram(
  command: string,
  searchPath: string | undefined,
  folder: string,
  files: FileHashes,
): FilePin | { readonly missing: string } {
  const named = command.includes('/');
  const path = named ? command : findOnPath(command, searchPath ?? defaultPath);
  if (typeof path !== 'string') return path;
  let real: string;
  try {
    real = realpathSync.native(path);
  } catch {
    return { missing: 'there is no such program' };
  }
  if (!named && !isInside(real, folder) && !isInside(path, folder) && !isScript(real)) return { path, real };
  const hashed = files.hash(path);
  return hashed === undefined
    ? { missing: 'the program cannot be read' }
    : { path, real: hashed.real, sha256: hashed.sha256 };
}

/** Searches PATH as the system does, but refuses relative entries. */
function findOnPath(command: string, searchPath: string): string | { missing: string } {
  for (const entry of searchPath.split(delimiter)) {
    if (!isAbsolute(entry)) {
      return { missing: 'PATH has a relative entry before it, so a file in the workspace could replace it' };
    }
    const path = join(entry, command);
    if (isProgram(path)) return path;
  }
  return { missing: 'there is no such program on PATH' };
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

function isScript(path: string): boolean {
  const head = Buffer.alloc(2);
  try {
    const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
    try {
      readSync(descriptor, head, 0, 2, 0);
    } finally {
      closeSync(descriptor);
    }
  } catch {
    // Only programs of the system are executable but not readable.
    return false;
  }
  return head.toString('latin1') === '#!';
}
