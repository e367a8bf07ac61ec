import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { scriptFiles, serverFiles } from '../../../src/sandbox/common/server-files.ts';
import { createContainerRunner } from '../../../src/sandbox/container/container.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { hasPodman } from '../../needs/podman.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness, type SandboxHarness } from './sandbox-harness.ts';

let folder = '';
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-hostile-')));
  vi.stubEnv('HOME', at('home'));
  file('home/.ssh/id', 'the key');
  file('home/.docker/config.json', '{}');
  file('home/data/keys/signing.json', '{}');
  file('home/data/tool', '\x7fELF');
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

const at = (path: string) => join(folder, path);
const content = 'home/data/packages/npx-x-0/content-0';
function file(path: string, said = '', mode = 0o755): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), said, { mode });
  return at(path);
}
function link(path: string, target: string): string {
  mkdirSync(dirname(at(path)), { recursive: true });
  symlinkSync(target, at(path));
  return at(path);
}

const rules = () => ({
  hidden: [at('home/data')],
  packages: at('home/data/packages'),
  open: [at('home/ws'), at('home/other-ws')],
  granted: [at('home/ws')],
});
const searchPath = () => `${at('home/bin')}:/usr/bin:/bin`;
function visiblePaths(command: string, args: string[] = []): string[] {
  const found = serverFiles({ command, args, searchPath: searchPath(), ...rules() });
  return [...new Set(found.mounts.map(({ source }) => source))].filter((path) => path.startsWith(folder)).sort();
}
const refused = expect.objectContaining({ code: 'SANDBOX_UNAVAILABLE' });

/** The first line fills exactly what the kernel reads of it, so that the kernel takes it for no script at all. */
const padded = (path: string) => `#!${'/'.repeat(254 - path.length)}${path}\nexec node\n`;

describe('the first line of a package', () => {
  const ofPackage = (line: string) => visiblePaths(file(`${content}/node_modules/x/start`, line));
  const itself = () => [at(`${content}/node_modules`), at(`${content}/node_modules/x/start`)];

  test('S1: makes nothing of the host visible, whatever path it names', async () => {
    const socket = createServer().listen(at('home/data/control.sock'));
    await new Promise((done) => socket.once('listening', done));
    chmodSync(at('home/data/control.sock'), 0o777);
    const secret = file('home/project/.venv/bin/secret', '\x7fELF');
    file('home/project/.venv/pyvenv.cfg');
    link('home/project/.venv/bin/python', '/bin/sh');
    file('home/bin/deploy', '#!/bin/sh\ntoken=1\n');
    const paths = ['home', 'home/.ssh', 'home/.ssh/id', 'home/data', 'home/data/control.sock', 'home/data/tool'];
    for (const path of [...paths.map(at), secret, at('home/project/.venv/bin/python'), '/etc', '/etc/passwd']) {
      for (const line of [padded(path), `#!${path}\n`, `#! ${path} -x\n`, `#!${path}`]) {
        expect.soft(ofPackage(line), line.slice(-60)).toEqual(itself());
      }
    }
    for (const line of ['#!/usr/bin/env ../.ssh/id\n', '#!/usr/bin/env ../data/tool\n', '#!/usr/bin/env deploy\n']) {
      expect.soft(ofPackage(line), line).toEqual(itself());
    }
    socket.close();
  });

  test('S1: brings the runtime it asks for on PATH, Ambit’s own, and one inside the package', () => {
    const runtime = file('home/.nvm/versions/v1/bin/node', '\x7fELF');
    file('home/.nvm/versions/v1/include/node/node.h');
    link('home/bin/node', runtime);
    const whole = at('home/.nvm/versions/v1');
    for (const line of ['#!/usr/bin/env node\n', '#!/usr/bin/env -S node --x\n', `#!${at('home/bin/node')}\n`]) {
      expect.soft(ofPackage(line), line).toEqual([...itself(), runtime, whole].sort());
    }
    vi.spyOn(process, 'execPath', 'get').mockReturnValue(runtime);
    expect(ofPackage(`#!${runtime}\n`)).toEqual([...itself(), runtime, whole].sort());
    vi.restoreAllMocks();
    expect(ofPackage(`#!${runtime}\n`)).toEqual(itself());
    const inner = file(`${content}/node_modules/x/run`, '\x7fELF');
    expect(ofPackage(`#!${inner}\n`)).toEqual(expect.arrayContaining(itself()));
  });

  test('S1: brings the Python that an environment links to, of the package or of the operator', () => {
    const python = file('home/.local/share/uv/python/cpython/bin/python3.12', '\x7fELF');
    file('home/.local/share/uv/python/cpython/lib/python3.12/os.py');
    for (const environment of ['home/data/packages/uvx-x-0/content-0/venv', 'home/project/.venv']) {
      file(`${environment}/pyvenv.cfg`);
      const own = link(`${environment}/bin/python`, python);
      file('home/project/pyproject.toml');
      const found = visiblePaths(file(`${environment}/bin/tool`, `#!${own}\n`));
      expect(found, environment).toEqual(expect.arrayContaining([at(environment), python, dirname(dirname(python))]));
      expect(found, environment).not.toContain(at('home'));
    }
    expect(visiblePaths(at('home/project/.venv/bin/python'))).toContain(python);
  });
});

describe('a link', () => {
  test('S1: of a project leads to nothing outside of it', () => {
    const script = file('home/projects/shop/server.js');
    link('home/projects/shop/node_modules', '../..');
    link('home/projects/shop/package.json', '../../.docker/config.json');
    expect(visiblePaths('sh', [script])).not.toContain(at('home'));
    expect(visiblePaths('sh', [script])).not.toContain(at('home/.docker/config.json'));
    rmSync(at('home/projects/shop/package.json'));
    file('home/projects/shop/package.json', '{}');
    expect(visiblePaths('sh', [script])).toEqual([
      at('home/projects/shop'),
      at('home/projects/shop/package.json'),
      script,
    ]);
    for (const target of ['../../.ssh/id', '../other/.env', '../../data/keys/signing.json']) {
      file('home/projects/other/package.json', '{}');
      file('home/projects/other/.env');
      const named = link(`home/projects/shop/${target.replaceAll('/', '-')}`, target);
      expect.soft(() => visiblePaths(script, [named]), target).toThrow(refused);
      expect.soft(() => scriptFiles({ command: 'x', args: [named], ...rules() }), target).toThrow(refused);
    }
    expect(() => visiblePaths('sh', [at('home/data/keys/signing.json')])).toThrow(refused);
    file('home/.ssh/plain', 'the key', 0o600);
    expect(() => visiblePaths(script, [link('unpacked/config', at('home/.ssh/plain'))])).toThrow(refused);
  });

  test('S4: that a session may rewrite adds nothing to what is shown', () => {
    const script = file('home/ws/server.js');
    file('home/ws/package.json', '{}');
    link('home/ws/node_modules', at('home'));
    expect(visiblePaths('sh', [script]).filter((path) => !path.startsWith(at('home/ws')))).toEqual([]);
    for (const target of ['home/data/keys/signing.json', 'home/.ssh/id', 'home/data/tool']) {
      file('home/elsewhere/dist/x');
      rmSync(at('home/ws/data.db'), { force: true });
      const named = link('home/ws/data.db', at(target));
      expect.soft(() => visiblePaths('sh', [named]), target).toThrow(refused);
    }
    link('home/ws/dist', at('home/elsewhere/dist'));
    link('home/other-ws/dist', at('home/elsewhere/dist'));
    expect(() => visiblePaths('sh', [at('home/ws/dist/x')])).toThrow(refused);
    expect(() => visiblePaths(at('home/ws/dist/x'))).toThrow(refused);
    expect(() => visiblePaths('sh', [at('home/other-ws/dist/x')])).toThrow(refused);
    // What is shown anyway may be linked to.
    link('home/ws/python', '/bin/sh');
    link('home/ws/again.js', 'server.js');
    expect(
      visiblePaths(at('home/ws/python'), [at('home/ws/again.js')]).every((path) => path.startsWith(at('home/ws'))),
    ).toBe(true);
  });

  test('of the operator is followed: a global package, modules of pnpm, a folder', () => {
    const global = file('home/.npm-global/lib/node_modules/tool/cli.js', '#!/bin/sh\n');
    const bin = link('home/.npm-global/bin/tool', '../lib/node_modules/tool/cli.js');
    expect(visiblePaths(bin)).toEqual([at('home/.npm-global/lib/node_modules'), global]);
    const inner = file('home/app/node_modules/.pnpm/a@1/node_modules/a/cli.js');
    link('home/app/node_modules/a', '.pnpm/a@1/node_modules/a');
    file('home/app/package.json', '{}');
    expect(visiblePaths('sh', [at('home/app/node_modules/a/cli.js')])).toEqual(
      [at('home/app/node_modules'), inner, at('home/app/package.json')].sort(),
    );
    const python = file('home/.pyenv/versions/3/bin/python3.12', '\x7fELF');
    for (const mark of ['package.json', 'versions/3/lib/python3.12/os.py']) file(`home/.pyenv/${mark}`);
    expect(visiblePaths(python)).toEqual([at('home/.pyenv/versions/3'), python]);
    const script = file('disk/projects/one/server.js');
    link('home/linked', at('disk/projects'));
    expect(visiblePaths('sh', [at('home/linked/one/server.js')])).toEqual([script]);
    const { mounts: inImage } = scriptFiles({ command: 'x', args: [at('home/linked/one/server.js')], ...rules() });
    expect(inImage.map(({ target }) => target)).toEqual([script, at('home/linked/one/server.js')]);
    expect(inImage.every(({ source }) => source === script)).toBe(true);
  });
});

const inBwrap = ['bwrap', hasBwrap, createBwrapRunner] as const;
const inPodman = ['podman', hasPodman, createContainerRunner] as const;

describe.each(proof ? [inBwrap, inPodman] : [inBwrap])('a server in %s', (name, has, create) => {
  let harness: SandboxHarness;
  beforeEach(async () => {
    harness = await createSandboxHarness(undefined, undefined, create);
  });
  afterEach(() => harness.stop());

  test.skipIf(!has())('S1: does not find what its first line or a link of its project leads to', async () => {
    const said = `cat ${at('home/.ssh/id')} || echo none`;
    file('home/project/package.json', '{}');
    link('home/project/node_modules', '..');
    const script = file('home/project/start', `${said}\n`);
    const program = file('home/alone/start', `${padded(at('home')).split('\n')[0]}\n${said}\n`);
    const asked = [['sh', [script]] as const, ...(name === 'bwrap' ? [[program, []] as const] : [])];
    const answers = asked.map(async ([command, args]) => {
      const running = await harness.runner.start({ ...harness.launch(args), command });
      running.stdin.end();
      return (await Promise.all([text(running.stdout), text(running.stderr), running.exited]))[0];
    });
    expect(await Promise.all(answers)).toEqual(asked.map(() => 'none\n'));
  });
});
