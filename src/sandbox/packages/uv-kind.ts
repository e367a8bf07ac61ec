import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import type { PackageCommand } from './package-command.ts';
import { type PackageKind, programNotFound, type RunTool } from './package-kind.ts';
import { assertNoEscape } from './package-tree.ts';
import { maxLockBytes, readFileStart, readPackageFile } from './read-package-file.ts';
import { refuseOffender, showWord } from './registry-check.ts';
import { readUvSources } from './uv-sources.ts';

const requirementsFile = 'requirements.in';
const lockFile = 'requirements.txt';
const venv = 'venv';
/** A package that has to be built would run a script of its own during the fetch. */
const fixedFlags = ['--only-binary', ':all:', '--no-progress', '--quiet'];
const lockShape = ['--no-header', '--no-annotate'];
const maxHeadBytes = 8192;
const requirementPattern = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._\s-]*\])?==[0-9A-Za-z.+!-]+(?:\s*;[^@]*)?$/;
/** The program of an environment is a link to the Python of this machine. */
const ownPython = /^venv\/bin\/python[0-9.]*$/;

export const uvKind: PackageKind = {
  tool: 'uvx',
  fetcher: 'uv',
  installHint: 'Install uv, which includes uvx.',
  lockFiles: [requirementsFile, lockFile],
  programFolder: `${venv}/bin`,

  findSources: (host, wanted) => readUvSources(host, wanted),

  async resolve(wanted, folder, run) {
    writeRequirements(wanted, folder);
    await createVenv(folder, run);
    const shape = ['--generate-hashes', ...lockShape, ...pythonFlag(folder)];
    await run(['pip', 'compile', ...fixedFlags, ...shape, '-o', lockFile, requirementsFile], folder);
  },

  checkLock(folder) {
    const lines = readPackageFile(folder, lockFile, maxLockBytes)
      .replace(/\\\n/g, ' ')
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '' && !line.startsWith('#'));
    const offender = lines.find((line) => !isPinned(line));
    if (offender !== undefined)
      refuseOffender(
        `"${showWord(offender.split('--hash')[0]?.trimEnd())}", which is not a wheel with a hash from an index`,
      );
  },

  async install(_, folder, run) {
    if (!existsSync(join(folder, venv))) await createVenv(folder, run);
    await run(
      ['pip', 'sync', ...fixedFlags, '--require-hashes', '--link-mode', 'copy', ...pythonFlag(folder), lockFile],
      folder,
    );
  },

  checkInstalled(folder, { env }) {
    const isOwnPython = (path: string) =>
      ownPython.test(path) && realpathSync.native(join(folder, path)) === env['UV_PYTHON'];
    return assertNoEscape(folder, isOwnPython);
  },

  readPin({ name }, folder) {
    const text = readPackageFile(folder, lockFile, maxLockBytes);
    const own = normalizeName(name.replace(/\[.*$/s, ''));
    const line = text.split('\n').find((each) => normalizeName(/^[A-Za-z0-9._-]+/.exec(each)?.[0] ?? '') === own);
    const version = /==([^\s;\\]+)/.exec(line ?? '')?.[1];
    if (version === undefined) throw new Error(`uv did not report the version of "${name}"`);
    return { name, version, integrity: `sha256-${sha256Hex(text)}` };
  },

  findStartCommand(wanted, folder) {
    const programs = join(folder, venv, 'bin');
    const file = join(programs, wanted.program ?? wanted.name);
    if (!existsSync(file)) {
      const own = readdirSync(programs).filter((name) => !/^(?:python|pip|activate|deactivate|pydoc)/.test(name));
      throw programNotFound(wanted, own);
    }
    return isPythonScript(file)
      ? { command: join(programs, 'python'), args: [file, ...wanted.args] }
      : { command: file, args: wanted.args };
  },

  // The Python that the environment was made with may be gone.
  isIntact: (folder) => existsSync(join(folder, venv, 'bin', 'python')),

  async installDirectly(wanted, { folder, cache, locks }, run) {
    const flags = ['--no-progress', '--quiet', `--cache-dir=${join(cache, 'uv')}`];
    const chosen = (locks === undefined ? undefined : findLockedPython(locks)) ?? wanted.runtime;
    const python = chosen === undefined ? [] : ['--python', chosen];
    await run(['venv', ...flags, '--no-project', ...python, join(folder, venv)], folder);
    const [asked, locked] = [join(folder, requirementsFile), join(folder, lockFile)];
    if (locks === undefined) {
      writeRequirements(wanted, folder);
      await run(['pip', 'compile', ...flags, ...lockShape, ...pythonFlag(folder), '-o', locked, asked], folder);
    }
    await run(['pip', 'sync', ...flags, '--link-mode', 'copy', ...pythonFlag(folder), locked], folder);
  },
};

/** Finds the Python that the lock files were made for: they need not fit another. */
function findLockedPython(locks: string): string | undefined {
  const contents = readdirSync(locks).filter((name) => name.startsWith('content-'));
  const pythons = contents.map((name) => join(locks, name, venv, 'bin', 'python'));
  const found = pythons.find((path) => existsSync(path));
  return found === undefined ? undefined : realpathSync.native(found);
}

function writeRequirements({ name, wanted }: PackageCommand, folder: string): void {
  const line = `${name}${wanted === '' ? '' : `==${wanted}`}\n`;
  writeFileSync(join(folder, requirementsFile), line, { flag: 'wx', mode: 0o600 });
}

/**
 * Whether the Python of the environment runs the file. Its path may be too long for a first line, or have a space. uv
 * then writes a script for the shell, which hides the interpreter.
 */
function isPythonScript(file: string): boolean {
  const [first = '', second = ''] = readFileStart(file, maxHeadBytes).toString('utf8').split('\n');
  return /^#!.*\/python[0-9.]*$/.test(first) || (first === '#!/bin/sh' && second.startsWith("'''exec' "));
}

/** Whether a line pins a version of an index with one hash or more. */
function isPinned(line: string): boolean {
  const [wanted = '', ...hashes] = line.split('--hash=sha256:');
  const isSetApart = [wanted, ...hashes.slice(0, -1)].every((part) => /\s$/.test(part));
  const areHashes = hashes.length > 0 && hashes.every((hash) => /^[0-9a-f]{64}$/.test(hash.trimEnd()));
  return isSetApart && areHashes && requirementPattern.test(wanted.trimEnd());
}

const createVenv = (folder: string, run: RunTool): Promise<void> =>
  run(['venv', '--quiet', '--no-project', '--no-progress', venv], folder);

const pythonFlag = (folder: string): string[] => ['--python', join(folder, venv, 'bin', 'python')];

/** Normalises a name as Python does when it compares names. */
const normalizeName = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');
