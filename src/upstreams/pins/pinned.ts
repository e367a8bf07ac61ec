import { existsSync } from 'node:fs';
import { hashedValues } from '../../lib/json/canonical-json.ts';
import { isDataFile } from './data-files.ts';
import type { FileHashes } from './file-hashes.ts';
import { findProgram } from './find-program.ts';
import { filesOfArgs, filesOfValues, tooMany } from './named-files.ts';

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
  const paths = pathsOf(server);
  return {
    kind: 'stdio',
    folder,
    command: server.command,
    program: paths === undefined ? { missing: tooMany } : findProgram(server.command, searchPath, folder, files),
    args: [...server.args],
    env: hashedValues(server.env),
    files: (paths ?? [])
      .filter((path) => existsSync(path))
      .flatMap((path) => {
        const found = files.hash(path);
        return found === undefined ? [] : [{ path, real: found.real, sha256: found.sha256 }];
      }),
    ...(named === undefined ? {} : { package: named }),
  };
}

/** The files that decide what runs. A variable often names data, which changes all the time and decides nothing. */
function pathsOf(server: Extract<Approvable, { kind: 'stdio' }>): string[] | undefined {
  const { folder, env } = server;
  const ofArgs = filesOfArgs(server, folder);
  if (ofArgs === undefined) return undefined;
  const ofValues = filesOfValues(server, Object.values(env), folder);
  if (ofValues === undefined) return undefined;
  return [...new Set([...ofArgs, ...ofValues.filter((path) => !isDataFile(path))])].sort();
}
