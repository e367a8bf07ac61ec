import { statSync } from 'node:fs';
import { isAbsolute, resolve } from 'node:path';

function isFile(path: string): boolean {
  try {
    return statSync(path).isFile();
  } catch {
    // Too long, with a NUL, or not there: then it is not the name of a file.
    return false;
  }
}

/**
 * A server runs in the workspace, its script lies beside the configuration: relative arguments that name files
 * there become absolute. Folders are left alone, since `.` and `src` mean the workspace.
 */
export function resolveArgs(args: readonly string[], configDir: string): string[] {
  return args.map((arg) => {
    if (arg === '' || arg.startsWith('-') || isAbsolute(arg)) return arg;
    const path = resolve(configDir, arg);
    return isFile(path) ? path : arg;
  });
}

/** A command with a slash is a path, relative to the configuration; a bare name is looked up on PATH. */
export function resolveCommand(command: string, configDir: string): string {
  return command.includes('/') ? resolve(configDir, command) : command;
}
