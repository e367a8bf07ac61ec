import {
  chmodSync,
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, afterEach, expect, test, vi } from 'vitest';
import { serverFiles } from '../../../src/sandbox/common/server-files.ts';
import { uvKind } from '../../../src/sandbox/packages/uv-kind.ts';

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-shown-')));
afterAll(() => rmSync(folder, { recursive: true }));

function shownFrom(dataDir: string): string[] {
  const content = join(dataDir, 'packages/npx-x-0/content-0');
  const program = join(content, 'node_modules/x/bin.js');
  for (const file of [program, join(content, 'package.json'), join(dataDir, 'keys/secret')]) {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, '{}');
  }
  chmodSync(program, 0o755);
  const rules = { hidden: [dataDir], packages: join(dataDir, 'packages') };
  const { mounts } = serverFiles({ command: program, args: [], searchPath: '/usr/bin', ...rules });
  return [...new Set(mounts.map(({ source }) => source))].sort();
}

test.each(['data', 'node_modules/.cache/data', 'node_modules/a/node_modules/b'])(
  'of a package that was fetched into %s, its modules are shown and nothing else',
  (name) => {
    const content = join(folder, name, 'packages/npx-x-0/content-0');
    expect(shownFrom(join(folder, name))).toEqual([
      join(content, 'node_modules'),
      join(content, 'node_modules/x/bin.js'),
      join(content, 'package.json'),
    ]);
  },
);

afterEach(() => void vi.unstubAllEnvs());

const shell = (python: string) => `#!/bin/sh\n'''exec' '${python}' "$0" "$@"\n' '''\nimport sys\n`;
const firstLine = (python: string) => `#!${python}\nimport sys\n`;

/** Paths that are shown of a Python package, below the home folder and the data directory. */
function shownOfPython(prefix: string, script: (python: string) => string, more: readonly string[] = []) {
  const home = realpathSync(mkdtempSync(join(folder, 'home-')));
  vi.stubEnv('HOME', home);
  const dataDir = realpathSync(mkdtempSync(join(folder, 'data-')));
  const content = join(dataDir, 'packages/uvx-x-0/content-0');
  const python = join(home, prefix, 'bin/python3.12');
  const files = ['lib/python3.12/os.py', 'lib/libpython3.12.so.1.0', 'lib/libother.so', ...more];
  for (const file of ['.ssh/id_ed25519', 'notes.txt', ...files.map((name) => join(prefix, name))]) {
    mkdirSync(dirname(join(home, file)), { recursive: true });
    writeFileSync(join(home, file), '');
  }
  const programs = join(content, 'venv/bin');
  for (const made of [programs, dirname(python), join(content, 'venv/lib')]) mkdirSync(made, { recursive: true });
  copyFileSync('/bin/true', python);
  symlinkSync(python, join(programs, 'python'));
  // A stranger may write this file, and it decides nothing.
  writeFileSync(join(content, 'venv/pyvenv.cfg'), `home = ${home}\n`);
  writeFileSync(join(programs, 'x'), script(join(programs, 'python')), { mode: 0o755 });
  const wanted = { tool: 'uvx', name: 'x', wanted: '', program: 'x', runtime: undefined, args: ['--flag'] } as const;
  const start = uvKind.findStartCommand(wanted, content);
  expect(start).toEqual({ command: join(programs, 'python'), args: [join(programs, 'x'), '--flag'] });
  const rules = { hidden: [dataDir], packages: join(dataDir, 'packages') };
  const { mounts } = serverFiles({ ...start, searchPath: '/usr/bin', ...rules });
  const sources = [...new Set(mounts.map(({ source }) => source))].sort();
  const [ofPackage, ofHome] = [true, false].map((own) => sources.filter((each) => each.startsWith(content) === own));
  expect(ofPackage).toContain(join(content, 'venv'));
  return ofHome?.map((path) => path.slice(home.length + 1));
}

test.each([
  ['pyenv', '.pyenv/versions/3.12.1'],
  ['uv', '.local/share/uv/python/cpython-3.12.1-linux-x86_64-gnu'],
])('the Python that %s has installed in a home folder is shown to a package, and nothing else', (_, prefix) => {
  for (const script of [shell, firstLine])
    expect(shownOfPython(prefix, script)).toEqual([prefix, join(prefix, 'bin/python3.12')]);
});

test.each(['', '.local'])('S4: of a Python whose prefix is ~/%s, only its own files are shown', (prefix) => {
  const own = ['bin/python3.12', 'lib/libpython3.12.so.1.0', 'lib/python3.12'].map((name) => join(prefix, name));
  expect(shownOfPython(prefix, shell, ['share/keyrings/login', 'lib/python3.11/site-packages/a.py'])).toEqual(own);
});
