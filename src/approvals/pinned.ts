import { isAbsolute, join, resolve } from 'node:path';
import { hashedValues } from '../canonical-json.ts';
import type { FileHashes } from './file-hashes.ts';
import { findProgram } from './find-program.ts';

/** What an approval needs to know of a server; the definition of any server fits. */
export type Approvable = {
  readonly name: string;
  readonly source: 'operator' | 'project' | 'imported';
  readonly folder: string;
} & (
  | {
      readonly kind: 'stdio';
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
    }
  | { readonly kind: 'http'; readonly url: URL; readonly headers: Readonly<Record<string, string>> }
);

export interface FilePin {
  /** As the command line names it. */
  readonly path: string;
  /** Where that leads once links are followed. */
  readonly real: string;
  /** Left out for programs that belong to the system rather than to the project. */
  readonly sha256?: string;
}

/** A package that the command names, as it was fetched. */
export interface PackagePin {
  readonly name: string;
  readonly version: string;
  readonly integrity: string;
}

/** Undefined where a command names none, or it has not been fetched yet. */
export type FetchedPackage = (command: string, args: readonly string[]) => PackagePin | undefined;

/** Everything that decides what runs, or who is called, when a server is used. Plain data. */
export type Pinned =
  | {
      readonly kind: 'stdio';
      readonly folder: string;
      readonly command: string;
      readonly program: FilePin | { readonly missing: string };
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly files: readonly FilePin[];
      readonly package?: PackagePin | undefined;
    }
  | {
      readonly kind: 'http';
      readonly folder: string;
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
    };

/** A server as it stands at this moment, files included. */
export function pinnedNow(
  server: Approvable,
  files: FileHashes,
  searchPath: string | undefined,
  fetched?: FetchedPackage,
): Pinned {
  const { folder } = server;
  if (server.kind === 'http') {
    return { kind: 'http', folder, url: server.url.href, headers: hashedValues(server.headers) };
  }
  const named = fetched?.(server.command, server.args);
  return {
    kind: 'stdio',
    folder,
    command: server.command,
    program: findProgram(server.command, searchPath, folder, files),
    args: [...server.args],
    env: hashedValues(server.env),
    files: namedFiles(server.args, folder).flatMap((path) => {
      const found = files.hash(path);
      return found === undefined ? [] : [{ path, real: found.real, sha256: found.sha256 }];
    }),
    ...(named === undefined ? {} : { package: named }),
  };
}

/**
 * Every path an argument may mean: itself, what follows `=`, and both from the folder of the file or from a folder
 * named by another argument (`--directory /srv/x run server.py`). What does not exist yet is looked for as well, so
 * that it counts as a change when it appears.
 */
function namedFiles(args: readonly string[], folder: string): string[] {
  const words = args.flatMap((arg) => {
    const equals = arg.indexOf('=');
    return equals === -1 ? [arg] : [arg, arg.slice(equals + 1)];
  });
  const usable = words
    .map((word) => (word.startsWith('file://') ? word.slice('file://'.length) : word))
    .filter((word) => word !== '' && !word.startsWith('-') && word.length < 4096 && !word.includes('\0'));
  const folders = [
    folder,
    ...usable.filter(isAbsolute),
    ...usable.filter((w) => !isAbsolute(w)).map((w) => join(folder, w)),
  ];
  const paths = usable.flatMap((word) =>
    isAbsolute(word) ? [resolve(word)] : folders.map((base) => resolve(base, word)),
  );
  return [...new Set(paths)].sort();
}
