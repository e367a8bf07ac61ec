import { existsSync, readdirSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { type PackageKind, programNotFound, type RunTool } from './package-kind.ts';
import { assertNoEscape } from './package-tree.ts';
import { maxLockBytes, readPackageFile } from './read-package-file.ts';
import { refuseOffender, showWord } from './registry-check.ts';
import { readUvSources } from './uv-sources.ts';

const requirementsFile = 'requirements.in';
const lockFile = 'requirements.txt';
const venv = 'venv';
/** A package that has to be built would run a script of its own during the fetch. */
const fixedFlags = ['--only-binary', ':all:', '--no-progress', '--quiet'];
const requirementPattern = /^[A-Za-z0-9][A-Za-z0-9._-]*(?:\[[A-Za-z0-9,._\s-]*\])?==[0-9A-Za-z.+!-]+(?:\s*;[^@]*)?$/;
/** The program of an environment is a link to the Python of this machine. */
const ownPython = /^venv\/bin\/python[0-9.]*$/;

export const uvKind: PackageKind = {
  tool: 'uvx',
  fetcher: 'uv',
  installHint: 'Install uv, which brings uvx.',
  lockFiles: [requirementsFile, lockFile],

  findSources: (host, wanted) => readUvSources(host, wanted),

  async resolve(wanted, folder, run) {
    const { name, wanted: version } = wanted;
    writeFileSync(join(folder, requirementsFile), `${name}${version === '' ? '' : `==${version}`}\n`, {
      flag: 'wx',
      mode: 0o600,
    });
    await createVenv(folder, run);
    const shape = ['--generate-hashes', '--no-header', '--no-annotate', ...pythonFlag(folder)];
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
        `"${showWord(offender.split('--hash')[0]?.trimEnd())}", which is no wheel of an index with its hash`,
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
    if (version === undefined) throw new Error(`uv did not say what "${name}" is`);
    return { name, version, integrity: `sha256-${sha256Hex(text)}` };
  },

  findStartCommand(wanted, folder) {
    const programs = join(folder, venv, 'bin');
    const file = join(programs, wanted.program ?? wanted.name);
    if (!existsSync(file)) {
      const own = readdirSync(programs).filter((name) => !/^(?:python|pip|activate|deactivate|pydoc)/.test(name));
      throw programNotFound(wanted, own);
    }
    return { command: file, args: wanted.args };
  },
};

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
