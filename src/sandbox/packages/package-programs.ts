import { realpathSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { PackageCommand } from './package-command.ts';
import type { Started } from './package-kind.ts';
import { manifestBytes, readFetched, readStart } from './read-fetched.ts';

/** The program of an npm package that a command means: the one it names, the only one, or the one called like it. */
export function npmProgram(wanted: PackageCommand, folder: string): Started {
  const root = realpathSync.native(folder);
  const home = realpathSync.native(join(root, 'node_modules', wanted.name));
  const manifest = join(relative(root, home), 'package.json');
  const { bin } = JSON.parse(readFetched(root, manifest, manifestBytes)) as { readonly bin?: unknown };
  const own = wanted.name.replace(/^@[^/]*\//, '');
  const programs = new Map<string, unknown>(
    typeof bin === 'string' ? [[own, bin]] : typeof bin === 'object' && bin !== null ? Object.entries(bin) : [],
  );
  const [only] = programs.size === 1 ? [...programs.keys()] : [];
  const chosen = programs.get(wanted.program ?? only ?? own);
  if (typeof chosen !== 'string') throw noProgram(wanted, [...programs.keys()]);
  const file = realpathSync.native(join(home, chosen));
  if (!file.startsWith(home + sep)) throw noProgram(wanted, []);
  const { args } = wanted;
  if (wanted.runtime === 'bun') return { command: 'bun', args: [file, ...args] };
  return isScript(file) ? { command: file, args } : { command: 'node', args: [file, ...args] };
}

export function noProgram({ name, program, tool }: PackageCommand, there: readonly string[]): AmbitError {
  const names = there.slice(0, 10).map((each) => basename(each).replace(/[^\w.-]/g, '?'));
  const which = program === undefined ? 'one program to start' : `a program "${program}"`;
  const flag = tool === 'uvx' ? '--from' : '--package';
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${name}" does not have ${which}${names.length === 0 ? '' : `; it has ${names.join(', ')}`}.`,
    hint: `Write it as ${tool} ${flag} ${name} PROGRAM.`,
  });
}

/** The system starts it by its first line. */
const isScript = (file: string): boolean => readStart(file, 2).toString('latin1') === '#!';
