import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../canonical-json.ts';
import type { PackageKind } from './package-kind.ts';
import { noProgram } from './package-programs.ts';

const asked = 'requirements.in';
const lock = 'requirements.txt';
const venv = 'venv';
/** What has to be built would run a script of its own while it is fetched. */
const always = ['--only-binary', ':all:', '--no-progress', '--quiet'];

export const uvKind: PackageKind = {
  tool: 'uvx',
  fetcher: 'uv',
  missing: 'Install uv, which brings uvx.',
  lockFiles: [asked, lock],

  async fetch(wanted, folder, run) {
    const { name, wanted: version } = wanted;
    writeFileSync(join(folder, asked), `${name}${version === '' ? '' : `==${version}`}\n`, { flag: 'wx', mode: 0o600 });
    await run(environment(wanted.runtime), folder);
    await run(
      [
        'pip',
        'compile',
        ...always,
        '--generate-hashes',
        '--no-header',
        '--no-annotate',
        ...into(folder),
        '-o',
        lock,
        asked,
      ],
      folder,
    );
    await run(['pip', 'sync', ...always, '--require-hashes', '--link-mode', 'copy', ...into(folder), lock], folder);
  },

  async restore({ runtime }, folder, run) {
    await run(environment(runtime), folder);
    await run(['pip', 'sync', ...always, '--require-hashes', '--link-mode', 'copy', ...into(folder), lock], folder);
  },

  pinned({ name }, folder) {
    const text = readFileSync(join(folder, lock), 'utf8');
    const own = normal(name.replace(/\[.*$/, ''));
    const line = text.split('\n').find((each) => normal(/^[A-Za-z0-9._-]+/.exec(each)?.[0] ?? '') === own);
    const version = /==([^\s;\\]+)/.exec(line ?? '')?.[1];
    if (version === undefined) throw new Error(`uv did not say what "${name}" is`);
    return { name, version, integrity: `sha256-${sha256(text)}` };
  },

  program(wanted, folder) {
    const programs = join(folder, venv, 'bin');
    const file = join(programs, wanted.program ?? wanted.name);
    if (!existsSync(file)) {
      const own = readdirSync(programs).filter((name) => !/^(?:python|pip|activate|deactivate|pydoc)/.test(name));
      throw noProgram(wanted, own);
    }
    return { command: file, args: wanted.args };
  },
};

const environment = (python: string | undefined): string[] => [
  ...['venv', '--quiet', '--no-project', '--no-progress'],
  ...(python === undefined ? [] : ['--python', python]),
  venv,
];

const into = (folder: string): string[] => ['--python', join(folder, venv, 'bin', 'python')];

/** As Python compares names. */
const normal = (name: string): string => name.toLowerCase().replace(/[-_.]+/g, '-');
