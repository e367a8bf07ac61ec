import fs, { type Dir } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { onTestFinished } from 'vitest';

export interface FsCalls {
  /** How often the file system was asked about one name, or a folder was opened to be read. */
  asked: number;
  /** How many names were read from folders. */
  names: number;
}

/** Counts how this process looks at the file system from now on, until the test ends. */
export function countFsCalls(): FsCalls {
  const looks: FsCalls = { asked: 0, names: 0 };
  const { lstatSync, statSync, readdirSync, opendirSync, openSync, readlinkSync } = fs;
  const own = { lstatSync, statSync, readdirSync, opendirSync, openSync, readlinkSync };
  for (const name of Object.keys(own) as (keyof typeof own)[]) {
    const ask = own[name] as (...given: unknown[]) => unknown;
    (fs as unknown as Record<string, unknown>)[name] = (...given: unknown[]) => {
      looks.asked++;
      const answer = ask(...given);
      if (name === 'readdirSync') looks.names += (answer as unknown[]).length;
      return name === 'opendirSync' ? countReads(answer as Dir, () => looks.names++) : answer;
    };
  }
  syncBuiltinESMExports();
  onTestFinished(() => {
    Object.assign(fs, own);
    syncBuiltinESMExports();
  });
  return looks;
}

function countReads(directory: Dir, count: () => void): Dir {
  const read = directory.readSync.bind(directory);
  directory.readSync = () => {
    count();
    return read();
  };
  return directory;
}
