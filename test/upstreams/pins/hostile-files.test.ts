import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createFileHashes, maxPinnedBytes } from '../../../src/upstreams/pins/file-hashes.ts';
import { requestControl } from '../../journeys/request-control.ts';
import { startAmbit } from '../../journeys/start-ambit.ts';
import { createProject, type Project } from './project.ts';

// A session that can write to a pinned file must not hold up the gateway. Large files here are sparse.

let project: Project;
beforeEach(() => {
  project = createProject();
});
afterEach(() => project.remove());

const makePipe = (path: string) => execFileSync('mkfifo', [path]);
const preview = async (description: Record<string, unknown>) =>
  project.approvals.preview(await project.server(description));

describe('a pipe in the place of a file', () => {
  test.each([
    ['app/package.json', ['app']],
    ['node_modules/app/package.json', ['app']],
    ['app.js', ['app']],
    ['app/index.js', ['./app']],
  ])('%s is not waited for, and not pinned', async (path, args) => {
    makePipe(join(project.write(`${path}.d/x`, ''), '../..', path.split('/').at(-1) ?? ''));
    const pins = await preview({ command: 'node', args });
    expect(pins).toMatchObject({ files: [] });
    const server = await project.server({ command: 'node', args });
    await project.approvals.approve(server);
    expect(project.approvals.check(server).state).toBe('approved');
  });

  test('nor is a pipe in the place of an approved script or program', async () => {
    for (const command of ['node', './run.sh']) {
      const path = project.write('run.sh', '#!/bin/sh\n', 0o755);
      const server = await project.server({ command, args: [path] });
      await project.approvals.approve(server);
      rmSync(path);
      makePipe(path);
      expect(project.approvals.check(server).state).toBe('changed');
      expect((await project.approvals.checkInPieces(server)).state).toBe('changed');
      rmSync(path);
    }
  });
});

describe('a file that is too large', () => {
  test.each([
    ['a script', 'node', ['run.js']],
    ['a program', './run.js', []],
  ])('S3: %s is not read, and its server cannot be approved', async (_, command, args) => {
    truncateSync(project.write('run.js', '', 0o755), 3 * 2 ** 30);
    const pins = await preview({ command, args });
    expect(pins).toMatchObject({ program: { missing: expect.stringContaining('run.js is too large to pin') } });
    const approval = project.approvals.approve(await project.server({ command, args }));
    await expect(approval).rejects.toThrow('the pinned files of a server may have 256 MB together');
  });

  test('S3: the files of a server count together', async () => {
    for (const name of ['a.js', 'b.js']) truncateSync(project.write(name, ''), maxPinnedBytes - 1);
    project.write('c.js', 'small');
    const pins = await preview({ command: 'node', args: ['c.js', 'a.js', 'b.js'] });
    expect(pins).toMatchObject({ program: { missing: expect.stringContaining('b.js is too large to pin') } });
  });

  test('S3: a package.json of any size does not lead to other files', async () => {
    truncateSync(project.write('app/package.json', ''), 3 * 2 ** 30);
    expect(await preview({ command: 'node', args: ['app'] })).toMatchObject({
      program: { missing: expect.stringContaining('package.json is too large to pin') },
    });
  });

  test('other work goes on while one is read', async () => {
    truncateSync(project.write('run.js', ''), 64 << 20);
    let turns = 0;
    let isOver = false;
    const count = () => {
      turns++;
      if (!isOver) setImmediate(count);
    };
    count();
    await preview({ command: 'node', args: ['run.js'] });
    isOver = true;
    expect(turns).toBeGreaterThan(32);
  });

  test('a call reads no file that must differ from the approved one', () => {
    const path = project.write('run.js', 'one');
    const hashes = createFileHashes();
    const found = hashes.reader()(path);
    const approved = new Map([[path, (found as { readonly sha256: string }).sha256]]);
    expect(hashes.reader(approved)(path)).toEqual(found);
    project.write('run.js', 'two');
    expect(hashes.reader(approved)(path)).toMatchObject({ sha256: expect.stringMatching(/^[0-9a-f]{64}$/) });
    project.write('run.js', 'longer');
    expect(hashes.reader(approved)(path)).toMatchObject({ sha256: 'other content' });
    expect(hashes.reader(new Map())(path)).toMatchObject({ sha256: 'other content' });
  });
});

test('S7: reading about servers answers whatever a session makes of their files, and reads none of an own server', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-hostile-'));
  const [app, large] = [join(folder, 'app'), join(folder, 'large.js')];
  mkdirSync(app);
  makePipe(join(app, 'package.json'));
  writeFileSync(large, '');
  truncateSync(large, 3 * 2 ** 30);
  const servers = Object.fromEntries(
    [app, large].flatMap((path, at) => [
      [`theirs-${at}`, { command: 'node', args: [path], imported: 'elsewhere' }],
      [`own-${at}`, { command: 'node', args: [path] }],
    ]),
  );
  const ambit = await startAmbit({ servers });
  const ask = <T>(method: string, path: string) => requestControl<T>(join(ambit.dataDir, 'control.sock'), method, path);
  type Shown = { readonly definition: { readonly problem: string | null; readonly files: readonly unknown[] } };
  try {
    expect((await ask<{ servers: unknown[] }>('GET', '/api/v1/servers')).servers).toHaveLength(4);
    const problems: unknown[] = [];
    for (const name of Object.keys(servers)) {
      const { definition } = await ask<Shown>('GET', `/api/v1/servers/${name}`);
      problems.push([name, definition.problem, definition.files]);
      await ask('POST', `/api/v1/servers/${name}/review`);
    }
    expect(problems).toEqual([
      ['theirs-0', null, []],
      ['own-0', null, []],
      ['theirs-1', expect.stringContaining('large.js is too large to pin'), []],
      ['own-1', null, []],
    ]);
  } finally {
    await ambit.stop();
    rmSync(folder, { recursive: true, force: true });
  }
});
