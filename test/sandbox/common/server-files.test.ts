import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { pinMounts } from '../../../src/sandbox/bwrap/mounts.ts';
import type { Mount } from '../../../src/sandbox/common/confinement.ts';
import { serverFiles } from '../../../src/sandbox/common/server-files.ts';
import { ordinaryLimits } from '../bwrap/sandbox-harness.ts';

let folder = '';
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-files-')));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const at = (path: string) => join(folder, path);
function file(path: string, content = '', mode = 0o755): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), content, { mode });
  return at(path);
}

function visiblePaths(command: string, args: string[] = [], hidden: string[] = []): string[] {
  const found = serverFiles({ command, args, searchPath: `${at('bin')}:/usr/bin:/bin`, hidden });
  return [...new Set(found.mounts.map(({ target }) => target))].filter((path) => path.startsWith(folder)).sort();
}

test('a file that belongs to no package is shown alone', () => {
  const script = file('downloads/server.js');
  file('downloads/letter.txt');
  expect(visiblePaths('sh', [script])).toEqual([script]);
});

test('a package is shown whole, with the modules above it', () => {
  const script = file('repo/packages/one/dist/server.js');
  file('repo/packages/one/package.json', '{}');
  file('repo/node_modules/zod/index.js');
  expect(visiblePaths('sh', [script])).toEqual(
    [script, at('repo/packages/one'), at('repo/packages/one/package.json'), at('repo/node_modules')].sort(),
  );
});

test('an installed package is shown with all that is installed beside it, and nothing of the project', () => {
  const script = file('repo/node_modules/.store/a/node_modules/a/dist/a.js');
  file('repo/package.json', '{}');
  file('repo/.env', 'SECRET=1');
  expect(visiblePaths('sh', [script])).toEqual([script, at('repo/node_modules'), at('repo/package.json')].sort());
});

test('no home folder is shown, even if it looks like a package', () => {
  vi.stubEnv('HOME', folder);
  const script = file('server.js');
  file('package.json', '{}');
  file('.ssh/id');
  expect(visiblePaths('sh', [script])).toEqual([at('package.json'), script].sort());
});

test('a package that holds what is never shown is narrowed to the folder of the file, or to the file', () => {
  const script = file('repo/servers/server.js');
  file('repo/package.json', '{}');
  const [config, data] = [file('repo/ambit.yaml'), file('repo/servers/data/x')];
  expect(visiblePaths('sh', [script], [config])).toEqual([at('repo/package.json'), at('repo/servers'), script].sort());
  expect(visiblePaths('sh', [script], [config, dirname(data)])).toEqual([at('repo/package.json'), script].sort());
});

test('a script brings its interpreter, found on PATH, and links stay links', () => {
  const program = file('repo/node_modules/pkg/cli.js', '#!/usr/bin/env -S runtime --flag\n');
  mkdirSync(at('repo/node_modules/.bin'));
  symlinkSync('../pkg/cli.js', at('repo/node_modules/.bin/cli'));
  const runtime = file('bin/runtime', '\x7fELF');
  const found = serverFiles({ command: at('repo/node_modules/.bin/cli'), args: [], searchPath: at('bin'), hidden: [] });
  expect(found.program).toBe(at('repo/node_modules/.bin/cli'));
  expect(found.searched).toEqual([at('repo/node_modules/.bin'), at('bin')]);
  expect(found.mounts.map(({ source }) => source)).toEqual(
    expect.arrayContaining([program, runtime, at('repo/node_modules')]),
  );
  expect(found.links).toContainEqual({ inside: at('repo/node_modules/.bin/cli'), target: '../pkg/cli.js' });
});

test('a runtime is shown whole only where all of it is the runtime', () => {
  file('venv/pyvenv.cfg');
  expect(visiblePaths(file('venv/bin/python'))).toContain(at('venv'));
  file('local/share/keyring');
  expect(visiblePaths(file('local/bin/tool'))).toEqual([at('local/bin/tool')]);
});

test('a runtime or a folder of modules that holds what is never shown is not shown whole', () => {
  file('venv-2/pyvenv.cfg');
  const python = file('venv-2/bin/python');
  expect(visiblePaths(python, [], [dirname(file('venv-2/data/secret'))])).toEqual([python]);
  const script = file('app/node_modules/server/index.js');
  const secret = file('app/node_modules/other/secret');
  expect(visiblePaths('sh', [script], [secret])).not.toContain(at('app/node_modules'));
  expect(visiblePaths('sh', [script])).toContain(at('app/node_modules'));
});

test('a link with a protected name is not followed, so that nothing outside the workspace is shown', async () => {
  file('outside-2/secret');
  mkdirSync(at('ws-2'));
  for (const name of ['.claude', '.git', '.mcp.json']) symlinkSync(at('outside-2'), at(`ws-2/${name}`));
  const home: Mount = { source: at('ws-2'), target: at('ws-2') };
  const rest = { readable: [], writable: [], hidden: [], limits: ordinaryLimits };
  const mounts = await pinMounts({ ...rest, home }, { mounts: [], links: [] }, folder);
  const { kept, readOnly } = mounts.guarded;
  expect([...kept, ...readOnly].filter(({ target }) => target.startsWith(at('ws-2')))).toEqual([]);
  mounts.release();
  const guarded: Mount = { ...home, guard: { git: 'read' } };
  await expect(pinMounts({ ...rest, home: guarded }, { mounts: [], links: [] }, folder)).rejects.toThrow(
    'is a symbolic link',
  );
});

test('a missing program is not started, and a relative entry of PATH is skipped', () => {
  expect(() => visiblePaths('no-such-program')).toThrow('The program "no-such-program" was not found');
  expect(() => visiblePaths('./relative')).toThrow('was not found');
  expect(() => serverFiles({ command: 'sh', args: [], searchPath: 'bin:.', hidden: [] })).toThrow('was not found');
});

test('a path that was replaced since the check is not mounted, nor a folder of the kernel', async () => {
  const rest = { readable: [], writable: [], hidden: [], limits: ordinaryLimits };
  const none = { mounts: [], links: [] };
  mkdirSync(at('outside'));
  symlinkSync(at('outside'), at('ws'));
  const toMount = (path: string): Mount => ({ source: path, target: path });
  await expect(pinMounts({ ...rest, home: toMount(at('ws')) }, none, folder)).rejects.toThrow();
  mkdirSync(at('real'));
  symlinkSync(at('real'), at('way'));
  mkdirSync(at('real/ws'));
  await expect(pinMounts({ ...rest, home: toMount(at('way/ws')) }, none, folder)).rejects.toThrow('changed its target');
  for (const path of ['/proc', '/sys', '/dev/shm', '/proc/self']) {
    await expect(
      pinMounts({ ...rest, home: toMount(at('outside')), readable: [toMount(path)] }, none, folder),
    ).rejects.toThrow();
  }
});

test('a path in the workspace needs no mount of its own, and no descriptor is closed twice', async () => {
  file('ws/inner/x');
  const toMount = (path: string): Mount => ({ source: at(path), target: at(path) });
  const rest = { hidden: [], limits: ordinaryLimits };
  const mounts = await pinMounts(
    { ...rest, home: toMount('ws'), readable: [toMount('ws/inner')], writable: [toMount('ws/inner')] },
    { mounts: [toMount('ws')], links: [{ inside: at('ws/link'), target: 'x' }] },
    folder,
  );
  expect(mounts.entries.map(({ pinned, writable }) => [pinned.target, writable])).toEqual([[at('ws'), true]]);
  expect(mounts.links).toEqual([]);
  mounts.release();
});
