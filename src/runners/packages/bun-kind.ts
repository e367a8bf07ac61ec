import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { PackageKind } from './package-kind.ts';
import { npmProgram } from './package-programs.ts';

const manifest = 'package.json';
const lock = 'bun.lock';
const always = ['--ignore-scripts', '--no-progress', '--no-summary', '--backend=copyfile', '--linker=hoisted'];

export const bunKind: PackageKind = {
  tool: 'bunx',
  fetcher: 'bun',
  missing: 'Install Bun, or write it as npx -y PACKAGE.',
  lockFiles: [manifest, lock],

  async fetch({ name, wanted }, folder, run) {
    writeFileSync(join(folder, manifest), '{"private":true}\n', { flag: 'wx', mode: 0o600 });
    await run(['add', ...always, '--exact', `${name}@${wanted || 'latest'}`], folder);
  },

  restore: (_, folder, run) => run(['install', ...always, '--frozen-lockfile', '--production'], folder),

  pinned({ name }, folder) {
    const text = readFileSync(join(folder, lock), 'utf8');
    const line = text.split('\n').find((each) => each.trimStart().startsWith(`"${name}": ["${name}@`)) ?? '';
    const version = line.slice(line.indexOf(`["${name}@`) + `["${name}@`.length).split('"')[0];
    const integrity = /"(sha\d+-[A-Za-z0-9+/=]+)"\],?\s*$/.exec(line)?.[1];
    if (!version || integrity === undefined) throw new Error(`bun did not say what "${name}" is`);
    return { name, version, integrity };
  },

  program: npmProgram,
};
