import { accessSync, closeSync, constants, openSync, readSync, realpathSync, statSync } from 'node:fs';
import { delimiter, isAbsolute, join, sep } from 'node:path';
import type { FileHashes } from './file-hashes.ts';
import type { FilePin } from './pinned.ts';

const defaultPath = '/usr/local/bin:/usr/bin:/bin';

/**
 * The file a command starts. Its content is pinned when it is a script, was named by a path, or lies in the project:
 * a program of the system may be updated without asking, but it must stay the same file.
 */
export function findProgram(
  command: string,
  searchPath: string | undefined,
  folder: string,
  files: FileHashes,
): FilePin | { readonly missing: string } {
  const named = command.includes('/');
  const path = named ? command : lookUp(command, searchPath ?? defaultPath);
  if (typeof path !== 'string') return path;
  let real: string;
  try {
    real = realpathSync.native(path);
  } catch {
    return { missing: 'there is no such program' };
  }
  if (!named && !inside(real, folder) && !inside(path, folder) && !isScript(real)) return { path, real };
  const hashed = files.hash(path);
  return hashed === undefined
    ? { missing: 'the program cannot be read' }
    : { path, real: hashed.real, sha256: hashed.sha256 };
}

/** As the system itself would look, except that it would take a relative entry from wherever the server runs. */
function lookUp(command: string, searchPath: string): string | { missing: string } {
  for (const entry of searchPath.split(delimiter)) {
    if (!isAbsolute(entry)) {
      return { missing: 'PATH has a relative entry before it, so a file of the workspace could take its place' };
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
    // Executable but not readable: only programs of the system are like that.
    return false;
  }
  return head.toString('latin1') === '#!';
}

function inside(path: string, folder: string): boolean {
  return path.startsWith(folder.endsWith(sep) ? folder : folder + sep);
}
