import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, isAbsolute, join } from 'node:path';

/** The file a name on PATH stands for. Relative entries are passed over: they mean another file wherever one stands. */
export function lookUp(name: string, searchPath: string | undefined): string | undefined {
  for (const entry of (searchPath ?? '').split(delimiter)) {
    if (!isAbsolute(entry)) continue;
    const path = join(entry, name);
    if (isProgram(path)) return path;
  }
  return undefined;
}

export function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
