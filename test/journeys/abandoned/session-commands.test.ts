import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import { fileFlags, type RunningAmbit, startAmbit } from '../start-ambit.ts';

let folder: string;
let places: string[];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-commands-'));
  places = fileFlags(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('wrong usage exits with 2 and says what is wrong', () => {
  it.each([
    [['session', 'create', '--servers', 'notes'], /--servers/],
    [['explain', '--session', 'a'], /--tool/],
    [['session', 'create', '--meta', 'nothing'], /--meta/],
    [['session', 'create', '--ttl', 'soon'], /--ttl/],
    [['session', 'create', 'extra'], /extra/],
    [['session', 'list', '--all'], /--all/],
    [['session', 'show'], /ID/],
    [['session', 'end', 'a', '--force'], /--force/],
    [['session', 'restrict', 'a', '--user', 'b'], /--user/],
    [['session', 'widen', 'a'], /create, list, tree, watch, show, inspect, message, end, restrict/],
    [['serve', '--port', 'http'], /--port/],
    [['serve', '--prot', '1'], /--prot/],
    [['run'], /ambit run -- CMD/],
    [['session', 'create', '--trust', 'root'], /"direct" or "sandboxed"/],
    [['run', '--trust', 'full', '--', 'true'], /--trust/],
  ])('ambit %j', async (args, what) => {
    const { code, stdout, stderr } = await ambitInProcess([...args, ...places]);
    expect([code, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(what);
    expect(stderr).not.toMatch(/^\s+at /m);
  });
});

describe('with a running gateway', () => {
  let ambit: RunningAmbit;
  const command = (...args: string[]) =>
    ambitInProcess([...args, '--config', join(ambit.folder, 'etc', 'ambit.yaml'), '--data-dir', ambit.dataDir]);

  beforeAll(async () => {
    ambit = await startAmbit({ servers: {}, workspaces: {} });
  });
  afterAll(() => ambit?.stop());

  it('a session is created, listed, shown and ended', async () => {
    const options = ['--name', 'task#049', '--user', 'ada', '--agent', 'a1', '--ttl', '60', '--trust', 'direct'];
    const created = await command('session', 'create', ...options, '--json');
    const { token, ...record } = JSON.parse(created.stdout) as { id: string; token: string };
    expect(created.code).toBe(0);
    expect(token).toMatch(/^ambs_/);
    const facts = { name: 'task#049', userId: 'ada', agentId: 'a1', ttlSeconds: 60, trustLevel: 'direct' };
    expect(record).toMatchObject(facts);
    const listed = await command('session', 'list', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({ sessions: [facts] });
    for (const reference of [record.id, 'task#049', record.id.slice(0, 8)]) {
      const shown = await command('session', 'show', reference, '--json');
      expect(JSON.parse(shown.stdout)).toMatchObject({ id: record.id, ...facts });
    }
    expect((await command('session', 'end', 'task#049')).code).toBe(0);
    expect(await command('session', 'end', 'task#049')).toMatchObject({ code: 1, stdout: '' });
    expect(JSON.parse((await command('session', 'list', '--json')).stdout)).toEqual({ sessions: [] });
  });

  it.each([
    [['show', 'nobody'], /SESSION_NOT_FOUND/],
    [['create', '--workspace', 'nowhere'], /WORKSPACE_NOT_FOUND/],
    [['create', '--name', 'two words'], /REQUEST_INVALID/],
  ])('ambit session %j is refused with 1', async (args, what) => {
    const { code, stdout, stderr } = await command('session', ...args);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(what);
  });
});
