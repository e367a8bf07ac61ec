import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { createVolumeName } from '../../src/workspaces/workspace-files.ts';
import { eras, openBoundedGateway } from '../gateway/bounded-gateway.ts';
import { createRawClient, type RawClient } from '../gateway/raw-client.ts';
import { hasPodman } from '../needs/podman.ts';
import { until } from '../sandbox/tagged-processes.ts';
import { podman } from './backends/container/volume-harness.ts';

let made: string | undefined;
// The volume of a workspace outlives the gateway, as it should. Declared first, this comes last.
afterEach(async () => {
  if (made === undefined) return;
  await on.close();
  podman('volume', 'rm', '--force', made);
  made = undefined;
});
const on = openBoundedGateway();

/** Two workspaces beside the data directory. */
async function startGateway(era: string, files: object = {}): Promise<void> {
  for (const name of ['garden', 'cellar']) mkdirSync(join(on.folder, name));
  writeFileSync(join(on.folder, 'garden/notes.txt'), 'roses\nlilies\n');
  const workspaces = {
    garden: { path: join(on.folder, 'garden'), files },
    cellar: { path: join(on.folder, 'cellar') },
  };
  await on.start(era, { servers: {}, workspaces });
}

async function callRefused(client: RawClient, name: string, args: object) {
  const { result } = await client.request('tools/call', { name, arguments: { session: 'current', ...args } });
  return (result?.['_meta'] as { 'ambit/error'?: { code: string; hint: string } } | undefined)?.['ambit/error'];
}

describe.each(eras)('in the %s era', (era) => {
  test('W1: the files of a session are read and changed through the gateway', async () => {
    await startGateway(era);
    const { id } = await on.gateway.createSession({ workspaceId: 'garden', name: 'task#049' });
    const client = await on.connect(id, era);
    expect(await client.call('session_read_file', { session: 'task#049', path: 'notes.txt' })).toContain('lilies');
    const edits = [{ oldText: 'lilies', newText: 'tulips' }];
    await client.call('session_edit_file', { session: 'current', path: 'notes.txt', edits });
    await client.call('session_edit_file', { session: id.slice(0, 12), path: 'new/deep/file.txt', content: 'fresh\n' });
    await client.call('session_move_file', { session: id, from: 'notes.txt', to: 'kept.txt' });
    expect(readFileSync(join(on.folder, 'garden/kept.txt'), 'utf8')).toBe('roses\ntulips\n');
    expect(readFileSync(join(on.folder, 'garden/new/deep/file.txt'), 'utf8')).toBe('fresh\n');
    expect(await client.call('session_list_dir', { session: id, depth: 3 })).toContain('    file.txt (6 B)');
    expect(await client.call('session_file_search', { session: id, pattern: 'new/**' })).toBe('new/deep/file.txt');
    expect(await client.call('session_grep_search', { session: id, pattern: 'tul?ips$' })).toBe('kept.txt\n2: tulips');
    await client.call('session_delete_file', { session: id, path: 'new', recursive: true });
    expect(await callRefused(client, 'session_file_info', { path: 'new' })).toMatchObject({ code: 'FILE_NOT_FOUND' });
  });

  test('W4: the journal has the requested path, the resolved path and the decision', async () => {
    await startGateway(era);
    mkdirSync(join(on.folder, 'garden/.git/hooks'), { recursive: true });
    symlinkSync('notes.txt', join(on.folder, 'garden/link.txt'));
    symlinkSync('.git/hooks', join(on.folder, 'garden/tools'));
    const { id } = await on.gateway.createSession({ workspaceId: 'garden' });
    const client = await on.connect(id, era);
    await client.call('session_read_file', { session: 'current', path: 'link.txt' });
    await client.call('session_edit_file', { session: 'current', path: 'tools/pre-commit', content: '#!/bin/sh\n' });
    await client.call('session_edit_file', { session: 'current', path: 'link.txt', content: 'x', dryRun: true });
    await client.call('session_move_file', { session: 'current', from: 'link.txt', to: 'tools/post-commit' });
    await client.call('session_read_file', { session: 'current', path: '../data/admin-token' });
    const told = () => on.journal(id).filter(({ kind }) => kind === 'file');
    await until(
      () => told().filter(({ decision }) => decision === 'refused').length === 4,
      5000,
      () => JSON.stringify(told()),
    );
    const calls = on.journal(id).filter(({ name }) => String(name).startsWith('session_'));
    expect(told().find(({ asked }) => asked === 'link.txt')).toMatchObject({
      tool: 'session_read_file',
      sessionId: id,
      workspaceId: 'garden',
      resolved: 'notes.txt',
      decision: 'allowed',
      id: calls[0]?.['id'],
    });
    expect(told().find(({ operation }) => operation === 'may-write')).toMatchObject({
      asked: 'link.txt',
      resolved: 'notes.txt',
      decision: 'allowed',
    });
    expect(told().filter(({ decision }) => decision === 'refused')).toMatchObject([
      { asked: 'tools/pre-commit', resolved: '.git/hooks/pre-commit', code: 'PATH_PROTECTED' },
      { operation: 'move', asked: 'link.txt', code: 'PATH_PROTECTED' },
      { operation: 'move-to', asked: 'tools/post-commit', resolved: '.git/hooks/post-commit', code: 'PATH_PROTECTED' },
      { asked: '../data/admin-token', code: 'PATH_VIOLATION' },
    ]);
  });

  test('W2: tools out of reach are unknown, and every refusal says what to call next', async () => {
    await startGateway(era);
    const { id } = await on.gateway.createSession();
    await on.gateway.createSession({ userId: 'bob', workspaceId: 'garden', name: 'bobs' });
    const child = await on.gateway.createSession({ workspaceId: 'cellar', parentId: id, name: 'child' });
    const client = await on.connect(id, era);
    const without = await callRefused(client, 'session_read_file', { path: 'notes.txt' });
    expect(without).toMatchObject({ code: 'WORKSPACE_REQUIRED', hint: expect.stringContaining('session_list') });
    const foreign = await callRefused(client, 'session_read_file', { session: 'bobs', path: 'notes.txt' });
    const unknown = await callRefused(client, 'session_read_file', { session: 'nobodys', path: 'notes.txt' });
    expect(foreign).toMatchObject({ code: 'SESSION_NOT_FOUND', hint: expect.stringContaining('session_list') });
    expect(foreign).toEqual(unknown);
    await client.call('session_edit_file', { session: 'child', path: 'made.txt', content: 'x' });
    expect(readFileSync(join(on.folder, 'cellar/made.txt'), 'utf8')).toBe('x');
    const missing = await callRefused(client, 'session_read_file', { session: child.id, path: 'mad.txt' });
    expect(missing).toMatchObject({ code: 'FILE_NOT_FOUND' });
  });

  test('O5: the workspace is the one that the client announced for the call, whatever the environment says', async () => {
    await startGateway(era);
    vi.stubEnv('AMBIT_WORKSPACE_ID', 'cellar');
    vi.stubEnv('AMBIT_WORKSPACE_PATH', join(on.folder, 'cellar'));
    onTestFinished(() => void vi.unstubAllEnvs());
    const { id } = await on.gateway.createSession();
    const without = await on.connect(id, era);
    expect(await callRefused(without, 'session_list_dir', {})).toMatchObject({ code: 'WORKSPACE_REQUIRED' });
    const meta = { ambit: { workspace: 'garden' } };
    const client = await createRawClient(on.gateway.connect(id), era, { meta });
    expect(await client.call('session_read_file', { session: 'current', path: 'notes.txt' })).toContain('roses');
    await client.close();
  });

  test('W7: what a session writes is bounded', async () => {
    await startGateway(era, { fileBytes: 100, sessionBytes: 250, sessionEntries: 4 });
    const { id } = await on.gateway.createSession({ workspaceId: 'garden' });
    const client = await on.connect(id, era);
    const write = (path: string, bytes: number) =>
      callRefused(client, 'session_edit_file', { path, content: 'x'.repeat(bytes) });
    expect(await write('large.txt', 101)).toMatchObject({ code: 'FILE_TOO_LARGE' });
    expect(await write('one.txt', 100)).toBeUndefined();
    expect(await write('two.txt', 100)).toBeUndefined();
    expect(await write('three.txt', 100)).toMatchObject({ code: 'WORKSPACE_FULL' });
    expect(await write('a/b.txt', 1)).toBeUndefined();
    expect(await write('c.txt', 1)).toMatchObject({ code: 'WORKSPACE_FULL' });
  });
});

test.each(hasPodman() ? (['database', 'container'] as const) : (['database'] as const))(
  'W5: the same tools work on files that lie in no folder: %s',
  async (backend) => {
    if (backend === 'container') made = createVolumeName(on.dataDir, 'shelf');
    await on.start('modern', { servers: {}, workspaces: { shelf: { backend } } });
    const { id } = await on.gateway.createSession({ workspaceId: 'shelf' });
    const client = await on.connect(id, 'modern');
    const session = 'current';
    await client.call('session_edit_file', { session, path: 'a/b.txt', content: 'roses\nlilies\ntulips\n' });
    expect(await client.call('session_read_file', { session, path: 'a/b.txt' })).toContain('lilies');
    const content = '# ... existing code ...\nlilies\ndaisies\ntulips\n# ... existing code ...\n';
    await client.call('session_edit_file', { session, path: 'a/b.txt', content });
    expect(await client.call('session_read_file', { session, path: 'a/b.txt' })).toBe(
      'roses\nlilies\ndaisies\ntulips\n',
    );
    expect(await client.call('session_grep_search', { session, pattern: 'li+l' })).toContain('a/b.txt');
    expect(await client.call('session_list_dir', { session, depth: 2 })).toContain('b.txt');
    expect(await callRefused(client, 'session_edit_file', { path: '.git/hooks/x', content: '' })).toMatchObject({
      code: 'PATH_PROTECTED',
    });
    expect(await callRefused(client, 'session_read_file', { path: '../../etc/passwd' })).toMatchObject({
      code: 'PATH_VIOLATION',
    });
  },
);
