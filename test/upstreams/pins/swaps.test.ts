import {
  chmodSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';
import { assertApproved, createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import { counts } from '../../proof.ts';
import { createProject, type Project } from './project.ts';

let project: Project;
beforeEach(() => {
  project = createProject();
});
afterEach(() => project.remove());

function lines(server: ServerDefinition): string[] {
  const verdict = project.approvals.check(server);
  return verdict.state === 'approved' ? ['approved'] : [verdict.state, ...verdict.changes.map(({ line }) => line)];
}

async function approved(description: Record<string, unknown>): Promise<ServerDefinition> {
  const server = await project.server(description);
  expect(lines(server)).toEqual(['unapproved']);
  await project.approvals.approve(server);
  expect(lines(server)).toEqual(['approved']);
  return server;
}

const plain = { command: 'node', args: ['build/server.js', '--fast'], env: { TOKEN: 'sk-one', PLACE: 'here' } };

describe('the configuration is swapped after the approval', () => {
  beforeEach(() => {
    project.write('build/server.js', 'one');
    project.write('build/evil.js', 'two');
  });

  test('a server that is added is not approved, and leaves the others as they are', async () => {
    await approved(plain);
    const servers = await project.declare({ x: plain, y: plain });
    expect(lines(servers.get('x') as ServerDefinition)).toEqual(['approved']);
    expect(lines(servers.get('y') as ServerDefinition)).toEqual(['unapproved']);
  });

  test.each([
    [{ args: ['build/evil.js', '--fast'] }, ['args[0]: build/server.js → build/evil.js']],
    [{ args: ['build/server.js', '--fast', '--more'] }, ['args[2]: added: --more']],
    [{ args: ['build/server.js'] }, ['args[1]: removed: --fast']],
    [
      { args: ['--fast', 'build/server.js'] },
      ['args[0]: build/server.js → --fast', 'args[1]: --fast → build/server.js'],
    ],
    [{ env: { TOKEN: 'sk-two', PLACE: 'here' } }, ['env TOKEN: value changed']],
    [{ env: { TOKEN: 'sk-one', PLACE: 'here', MORE: 'x' } }, ['env MORE: added']],
    [{ env: { TOKEN: 'sk-one' } }, ['env PLACE: removed']],
  ])('%j', async (swap, expected) => {
    await approved(plain);
    expect(lines(await project.server({ ...plain, ...swap }))).toEqual(['changed', ...expected]);
  });

  test('another command, and the whole transport', async () => {
    await approved(plain);
    const [state, ...changes] = lines(await project.server({ ...plain, command: 'sh' }));
    expect(state).toBe('changed');
    expect(changes[0]).toBe('command: node → sh');
    expect(lines(await project.server({ url: 'https://h/mcp' }))).toEqual(['changed', 'transport: stdio → http']);
  });

  test('swapped back it is what was approved', async () => {
    const server = await approved(plain);
    await project.server({ ...plain, args: ['build/evil.js'] });
    expect(lines(await project.server(plain))).toEqual(['approved']);
    expect(lines(server)).toEqual(['approved']);
  });
});

describe('files are swapped after the approval', () => {
  test('a script is edited, even to the same length with its times put back', async () => {
    const script = project.write('build/server.js', 'aaaa');
    const server = await approved(plain);
    const { atime, mtime } = statSync(script);
    writeFileSync(script, 'bbbb');
    utimesSync(script, atime, mtime);
    expect(lines(server)).toEqual(['changed', 'script build/server.js: content changed']);
  });

  test('many edits in a row, each within a tick of the one before', async () => {
    const script = project.write('build/server.js', 'aaaa');
    const server = await approved(plain);
    for (let round = 0; round < counts(100, 500); round++) {
      writeFileSync(script, round % 2 === 0 ? 'bbbb' : 'aaaa');
      expect(project.approvals.check(server).state).toBe(round % 2 === 0 ? 'changed' : 'approved');
    }
  });

  test('a link is pointed elsewhere, to the same content or to another', async () => {
    project.write('one/server.js', 'same');
    project.write('two/server.js', 'same');
    const link = join(project.folder, 'build');
    symlinkSync('one', link);
    const server = await approved(plain);
    rmSync(link);
    symlinkSync('two', link);
    const [state, change] = lines(server);
    expect(state).toBe('changed');
    expect(change).toMatch(/^script build\/server\.js: leads to .*two\/server\.js, was .*one\/server\.js$/);
  });

  test('a file is replaced by a link, by a hard link, by a folder, by nothing', async () => {
    const script = project.write('build/server.js', 'one');
    const evil = project.write('evil.js', 'two');
    const server = await approved(plain);
    const swaps = [() => symlinkSync(evil, script), () => linkSync(evil, script), () => mkdirSync(script), () => {}];
    for (const swap of swaps) {
      rmSync(script, { recursive: true, force: true });
      swap();
      expect(lines(server)[0]).toBe('changed');
    }
    rmSync(script, { recursive: true, force: true });
    project.write('build/server.js', 'one');
    expect(lines(server)).toEqual(['approved']);
  });

  test('a file that is new since the approval appears', async () => {
    const server = await approved({ command: 'node', args: ['later.js'] });
    project.write('later.js', 'x');
    expect(lines(server)).toEqual([
      'changed',
      'script later.js: is new since the approval, or was not pinned by an earlier version',
    ]);
  });

  test.each([
    [['--import=./hook.mjs', 'server.js'], 'hook.mjs'],
    [['--import', 'file://HERE/hook.mjs'], 'hook.mjs'],
    [['-r', './hook.mjs'], 'hook.mjs'],
    [['--directory', 'HERE/app', 'run', 'main.py'], 'app/main.py'],
    [['--directory', 'app', 'run', 'main.py'], 'app/main.py'],
  ])('files behind flags are pinned too: %j', async (args, file) => {
    project.write('server.js', 'x');
    project.write(file, 'one');
    const server = await approved({ command: 'node', args: args.map((arg) => arg.replace('HERE', project.folder)) });
    project.write(file, 'two');
    expect(lines(server)).toEqual(['changed', `script ${file}: content changed`]);
  });

  test('S3: a script that only its interpreter finds is pinned', async () => {
    const cases: readonly (readonly [string, string[], string])[] = [
      ['sh', ['-c', 'exec node HERE/srv.mjs'], 'srv.mjs'],
      ['bash', ['-lc', 'cd "HERE/app"&&FOO=1 node ./s"r"v.mjs>/dev/null'], 'app/srv.mjs'],
      ['env', ['-S', 'node HERE/srv.mjs'], 'srv.mjs'],
      ['node', ['HERE/server'], 'server.js'],
      ['node', ['server'], 'server.js'],
      ['node', ['HERE/app'], 'app/index.js'],
      ['node', ['--title', 'x', 'HERE/app'], 'app/package.json'],
      ['node', ['--title', 'HERE/server.js', 'HERE/app'], 'app/lib/main.js'],
      ['node', ['--import=file://HERE/%73rv.mjs', '-e', '1'], 'srv.mjs'],
      ['node', ['--import', './%73rv.mjs?v=1', '-e', '1'], 'srv.mjs'],
      ['node', ['--import=data:text/javascript,import%28%22HERE/srv.mjs%22%29', '-e', '1'], 'srv.mjs'],
      ['node', ['-e', "import('HERE/srv.mjs')"], 'srv.mjs'],
      ['node', ['-e', 'require("HERE/server")'], 'server.js'],
      ['node', ['-r./server', '-e', '1'], 'server.js'],
      ['bash', ['HERE/run.txt', 'node', 'HERE/app'], 'app/index.js'],
      ['python3', ['-m', 'tools.serve'], 'tools/serve.py'],
      ['python3', ['-mtools'], 'tools/__main__.py'],
      ['python3', ['HERE/tools'], 'tools/__main__.py'],
      ['python3', ['-c', 'exec(open("HERE/run.txt").read())'], 'run.txt'],
    ];
    const contentOf = (file: string) => (file.endsWith('package.json') ? '{"main":"lib/main"}' : '1');
    for (const [, , file] of cases) project.write(file, contentOf(file));
    const described = cases.map(([command, args]) => ({
      command,
      args: args.map((arg) => arg.replace('HERE', project.folder)),
    }));
    const servers = await project.declare(Object.fromEntries(described.map((each, index) => [`s${index}`, each])));
    for (const server of servers.values()) await project.approvals.approve(server);
    for (const [index, [command, args, file]] of cases.entries()) {
      const server = servers.get(`s${index}`) as ServerDefinition;
      project.write(file, `${contentOf(file)} `);
      expect([command, args, ...lines(server)]).toEqual([command, args, 'changed', `script ${file}: content changed`]);
      project.write(file, contentOf(file));
    }
    project.write('srv.mjs', '1', 0o666);
    expect(lines(servers.get('s0') as ServerDefinition)[0]).toBe('exposed');
  });

  test('S3: a folder that is handed to a script is not taken for a script', async () => {
    project.write('build/server.js', 'one');
    const server = await approved({ command: 'node', args: ['build/server.js', project.folder] });
    project.write('index.js', 'x');
    project.write('package.json', '{}');
    expect(lines(server)).toEqual(['approved']);
  });

  test('S3: a file that a variable names is pinned', async () => {
    for (const file of ['hooks/x.bash', 'evil.js', 'other.js', 'lib/evil']) project.write(file, 'one');
    const env = {
      ONE: `${project.folder}/hooks/x.bash`,
      TWO: './evil.js',
      THREE: `--verbose --require ${project.folder}/other`,
      FOUR: `/nowhere:${project.folder}/lib/evil`,
    };
    const server = await approved({ command: 'node', args: ['-v'], env });
    for (const file of ['hooks/x.bash', 'evil.js', 'other.js', 'lib/evil']) {
      project.write(file, 'two');
      expect(lines(server)).toEqual(['changed', `script ${file}: content changed`]);
      project.write(file, 'one');
    }
  });

  test('S3: a data file that a variable names may change, until it can be run', async () => {
    const data = project.write('memory.json', '{}');
    const server = await approved({ command: 'node', args: ['-v'], env: { MEMORY_FILE_PATH: data } });
    project.write('memory.json', '{"a":1}');
    expect(lines(server)).toEqual(['approved']);
    chmodSync(data, 0o755);
    expect(lines(server)[0]).toBe('changed');
  });

  test('S3: an approval of an earlier version that pinned less has to be given again', async () => {
    project.write('server.js', 'one');
    const server = await approved({ command: 'node', args: ['server'] });
    const file = join(project.dataDir, 'approvals.json');
    const written = JSON.parse(readFileSync(file, 'utf8'));
    written.servers.x.pinned.files = [];
    writeFileSync(file, JSON.stringify(written));
    expect(lines(server)).toEqual([
      'changed',
      expect.stringMatching(/^script server\.js: .*not pinned by an earlier version/),
    ]);
  });

  test('S3: a command line that is too long to be looked through is not approved', async () => {
    const text = Array.from({ length: 6000 }, (_, i) => `w${i}`).join(' ');
    const server = await project.server({ command: 'sh', args: ['-c', text] });
    await expect(project.approvals.approve(server)).rejects.toThrow(/names too many files/);
  });

  test('a program in the project is edited, script or not', async () => {
    for (const content of ['#!/bin/sh\necho', '\u007fELF']) {
      project.write('bin/run', content, 0o755);
      const server = await approved({ command: './bin/run' });
      project.write('bin/run', `${content}!`, 0o755);
      expect(lines(server)).toEqual(['changed', 'program bin/run: content changed']);
      await project.approvals.revoke('x');
    }
  });
});

describe('S3: a script that another account could exchange after the last look does not start', () => {
  const open = (path: string, mode: number) => chmodSync(join(project.folder, path), mode);
  const { command } = { command: './bin/run' };

  test.each<[string, Record<string, unknown>, () => void, RegExp]>([
    [
      'it can be written',
      plain,
      () => open('build/server.js', 0o666),
      /^script build\/server\.js: other users can write to/,
    ],
    [
      'its folder can',
      plain,
      () => open('build', 0o777),
      /^script build\/server\.js: other users can write to .*build \(/,
    ],
    ['a folder further up can', plain, () => open('.', 0o777), /^script build\/server\.js: .*project \(mode 0777\)/],
    [
      'a program of the project can',
      { command },
      () => open('bin', 0o777),
      /^program bin\/run: other users can write to/,
    ],
    [
      'the folder of its link can',
      { command: 'node', args: ['bin/link.js'] },
      () => open('bin', 0o777),
      /^script bin\/link/,
    ],
  ])('%s', async (_, description, expose, expected) => {
    project.write('build/server.js', 'one');
    project.write('bin/run', '#!/bin/sh\n', 0o755);
    symlinkSync('../build/server.js', join(project.folder, 'bin', 'link.js'));
    const server = await approved(description);
    expose();
    const [state, ...changes] = lines(server);
    expect([state, changes.length]).toEqual(['exposed', 1]);
    expect(changes[0]).toMatch(expected);
    expect(() => assertApproved(project.approvals, server)).toThrow(/not started.*\((script|program) [\w/.]+\)\.$/);
    await expect(project.approvals.approve(server)).rejects.toThrow(/other users can write to/);
  });

  test('where nobody can take what is ours, as in /tmp, it starts; programs of the system are not judged', async () => {
    project.write('build/server.js', 'one');
    open('build', 0o1777);
    await approved(plain);
  });
});

describe('the way a bare command is found', () => {
  test('a program in an earlier folder of PATH counts as a change', async () => {
    const bin = ['early', 'late'].map((name) => join(project.folder, '..', name));
    for (const path of bin) mkdirSync(path);
    const put = (path: string, text: string) => writeFileSync(join(path, 'tool'), text, { mode: 0o755 });
    put(bin[1] as string, '#!/bin/sh\n');
    const approvals = createApprovals({ dataDir: project.dataDir, searchPath: bin.join(':') });
    const server = await project.server({ command: 'tool' });
    await approvals.approve(server);
    expect(approvals.check(server).state).toBe('approved');
    put(bin[0] as string, '#!/bin/sh\n');
    expect(approvals.check(server)).toMatchObject({ state: 'changed', changes: [{ place: 'command' }] });
    rmSync(join(bin[0] as string, 'tool'));
    put(bin[1] as string, '#!/bin/sh\nevil\n');
    expect(approvals.check(server)).toMatchObject({ state: 'changed', changes: [{ place: 'program tool' }] });
  });

  test.each(['.', '', 'node_modules/.bin'])(
    'a relative entry "%s" of PATH leaves it to the workspace: refused',
    async (entry) => {
      const server = await project.server({ command: 'sh' });
      const safe = createApprovals({ dataDir: project.dataDir, searchPath: `/bin:${entry}` });
      await safe.approve(server);
      const unsafe = createApprovals({ dataDir: project.dataDir, searchPath: `${entry}:/bin` });
      expect(unsafe.check(server)).toMatchObject({ state: 'changed' });
      await expect(unsafe.approve(server)).rejects.toThrow(/relative entry/);
      expect(safe.check(server).state).toBe('approved');
    },
  );

  test('a missing program cannot be approved', async () => {
    const server = await project.server({ command: 'no-such-program-here' });
    await expect(project.approvals.approve(server)).rejects.toThrow(/no such program/);
  });
});

describe('a server over HTTP', () => {
  const remote = { url: 'https://one.example/mcp', headers: { Authorization: 'Bearer sk-one' } };

  test.each([
    [{ ...remote, url: 'https://two.example/mcp' }, 'url: https://one.example/mcp → https://two.example/mcp'],
    [{ ...remote, headers: { Authorization: 'Bearer sk-two' } }, 'header authorization: value changed'],
    [{ ...remote, headers: { ...remote.headers, 'X-More': 'x' } }, 'header x-more: added'],
    [{ url: remote.url }, 'header authorization: removed'],
  ])('is pinned by its address and headers (%#)', async (swap, expected) => {
    await approved(remote);
    expect(lines(await project.server(swap))).toEqual(['changed', expected]);
  });
});

describe('the messages', () => {
  test('for a caller name places and the remedy, but no value and no path of the machine', async () => {
    project.write('build/server.js', 'one');
    await approved(plain);
    const secret = { ...plain, args: ['build/server.js', '--key=sk-three'], env: { TOKEN: 'sk-two', PLACE: 'here' } };
    const server = await project.server(secret);
    const refused = () => assertApproved(project.approvals, server);
    expect(refused).toThrow(
      'The server "x" has changed since it was approved (args[1], env TOKEN), so it is not started.',
    );
    try {
      refused();
    } catch (error) {
      expect(error).toMatchObject({
        code: 'SERVER_NOT_APPROVED',
        hint: expect.stringContaining('"ambit server approve x"'),
      });
      expect(JSON.stringify([error, String(error)])).not.toMatch(/sk-|\/tmp/);
    }
  });

  test('for a missing script name it', async () => {
    project.write('build/server.js', 'one');
    const server = await approved(plain);
    renameSync(join(project.folder, 'build'), join(project.folder, 'moved'));
    expect(() => assertApproved(project.approvals, server)).toThrow(/script build\/server\.js/);
  });

  test("the operator's own servers need no approval", async () => {
    writeFileSync(project.configFile, 'version: 1\nservers: { own: { command: node } }\n');
    const own = (await project.declare({})).get('own') as ServerDefinition;
    expect(own.source).toBe('operator');
    assertApproved(project.approvals, own);
  });
});
