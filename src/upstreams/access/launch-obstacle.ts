import { statSync } from 'node:fs';
import { basename, isAbsolute, resolve } from 'node:path';
import { isInside } from '../../config/load/resolve-symlinks.ts';
import { isSystemPath } from '../../sandbox/common/visibility-filter.ts';
import type { StdioServer } from '../definition.ts';
import { findCommandProblem } from '../links/stdio/start-error.ts';

interface LaunchConditions {
  readonly searchPath: string | undefined;
  /** The folders that it may work in: the working directory, or those of all workspaces. */
  readonly folders: readonly string[];
  readonly isSandboxed: boolean;
}

/** Programs that run the file in their first argument, and the ends of such files. */
const interpreters = /^(?:node|python[0-9.]*|bun|deno|tsx|ruby|php|perl)$/;
const scriptEnd = /\.(?:[cm]?[jt]s|py|rb|php|pl)$/;
/** Folders that a sandbox has of its own. */
const sandboxFolders = ['/tmp', '/proc', '/dev', '/run', '/etc'];

/** Says what will keep a server from starting, as far as that shows without starting it. */
export function findLaunchObstacle(server: StdioServer, conditions: LaunchConditions): string | undefined {
  const { command, args, sandbox } = server;
  // An image brings its own programs and files.
  if (conditions.isSandboxed && sandbox.image !== undefined) return undefined;
  const { searchPath, folders } = conditions;
  const problem = findCommandProblem(command, searchPath);
  if (problem !== undefined) {
    const what = problem.what.replace(/\.$/, '');
    return /\s/.test(basename(command)) ? `${what}; put arguments into "args"` : what;
  }
  const script = interpreters.test(basename(command)) ? args.find((arg) => !arg.startsWith('-')) : undefined;
  if (script !== undefined && scriptEnd.test(script) && !isThere(script, folders)) {
    return `there is no file ${script} in the folder of the configuration, or in the folder where "ambit run" was called`;
  }
  const hidden = conditions.isSandboxed ? args.find((arg) => isHiddenFolder(arg, server, folders)) : undefined;
  if (hidden === undefined) return undefined;
  return `its argument ${hidden} is a folder that is not visible in its sandbox; add it to servers.${server.name}.sandbox.readable or writable, or use a direct session`;
}

function isHiddenFolder(path: string, { args, sandbox }: StdioServer, folders: readonly string[]): boolean {
  if (!isAbsolute(path) || isSystemPath(path) || sandboxFolders.includes(path)) return false;
  if (!isFolder(path)) return false;
  const scripts = args.filter((arg) => isAbsolute(arg) && !isFolder(arg));
  const shown = [...folders, ...sandbox.readable, ...sandbox.writable, ...scripts];
  return !shown.some((each) => isInside(path, each) || isInside(each, path));
}

function isThere(path: string, folders: readonly string[]): boolean {
  const places = isAbsolute(path) ? [path] : folders.map((folder) => resolve(folder, path));
  return places.some((place) => statSync(place, { throwIfNoEntry: false }) !== undefined);
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}
