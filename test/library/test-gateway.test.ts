import { readdirSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../src/library/create-gateway.ts';
import { createTestGateway } from '../../src/testing/index.ts';
import { taggedProcesses, until } from '../runners/tagged-processes.ts';
import { startRecorder } from './recorder-over-http.ts';
import { sdkClients } from './sdk-clients.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');
const server = (mark: string, era = 'handshake') => ({
  command: process.execPath,
  args: [script],
  env: { MARK: mark, ERA: era },
});
const folders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('ambit-gateway-'));
const processes = () => taggedProcesses(join(tmpdir(), 'ambit-gateway-')).length;

let gateway: EmbeddedGateway | undefined;
afterEach(async () => {
  await gateway?.close();
  gateway = undefined;
});

describe.each(Object.entries(sdkClients))('%s in the same process', (_name, connect) => {
  test('reaches all servers, and each by itself', async () => {
    gateway = await createTestGateway({ servers: { old: server('old'), young: server('young', 'modern') } });
    const { id } = await gateway.createSession();
    const all = await connect(gateway.connect(id));
    expect(await all.tools()).toEqual(expect.arrayContaining(['old__mark', 'young__mark']));
    expect([await all.call('old__mark'), await all.call('young__mark')]).toEqual(['old', 'young']);
    const one = await connect(gateway.connect(id, 'young'));
    expect(await one.tools()).toEqual(['mark', 'slow', 'crash']);
    expect(await one.call('mark')).toBe('young');
    await Promise.all([all.close(), one.close()]);
  });

  test('goes on after a reload, and a slow call over HTTP is answered by the server it went to', async () => {
    const recorder = await startRecorder();
    const far = (turn: string) => ({ url: recorder.url, headers: { 'x-turn': turn }, era: 'handshake' as const });
    gateway = await createTestGateway({ servers: { far: far('first'), near: server('before') } });
    const { id } = await gateway.createSession();
    const all = await connect(gateway.connect(id));
    const one = await connect(gateway.connect(id, 'far'));
    expect(await all.call('near__mark')).toBe('before');
    const slow = [all.call('far__slow', { key: 'all' }), one.call('slow', { key: 'one' })];
    // Answered after the slow ones were taken in: they are under way when the reload comes.
    await Promise.all([all.call('far__echo'), one.call('echo')]);
    const next = { version: 1 as const, servers: { far: far('second'), near: server('after') } };
    expect((await gateway.reload(next)).sort()).toEqual(['far', 'near']);
    expect(await Promise.all([all.call('near__mark'), all.call('near__mark')])).toEqual(['after', 'after']);
    expect(await Promise.all([one.call('release', { key: 'one' }), one.call('echo')])).toEqual([
      'released',
      expect.stringContaining('"echo"'),
    ]);
    expect(await all.call('far__release', { key: 'all' })).toBe('released');
    expect(await Promise.all(slow)).toEqual(['released all', 'released one']);
    await Promise.all([all.close(), one.close()]);
    await recorder.stop();
  });
});

test('sessions are opened within their bounds, shown without their token, and ended', async () => {
  gateway = await createTestGateway({ servers: { old: server('old') } });
  const { id, token, trustLevel } = await gateway.createSession({ name: 'a-session', agentId: 'tester' });
  expect(trustLevel).toBe('direct');
  expect(await gateway.listSessions()).toEqual([expect.objectContaining({ id, name: 'a-session', agentId: 'tester' })]);
  expect(JSON.stringify(await gateway.listSessions())).not.toContain(token);
  const client = await sdkClients['SDK v1'](gateway.connect(id));
  expect(await client.call('old__mark')).toBe('old');
  expect(await gateway.endSession(id)).toBe(true);
  expect(await gateway.endSession(id)).toBe(false);
  expect(await gateway.listSessions()).toEqual([]);
  await expect(gateway?.connect(id).start()).rejects.toThrow(/SESSION_NOT_FOUND|session/i);
  expect(await client.call('old__mark').catch((error: Error) => error.message)).toMatch(/session/i);
  await client.close();
});

test('closing leaves no process, no folder and no open address', async () => {
  const before = folders();
  const closing = await createTestGateway({ servers: { old: server('old'), young: server('young', 'modern') } });
  const { id, token } = await closing.createSession();
  const http = await closing.listen({ port: 0 });
  const client = await sdkClients['SDK v2, modern'](closing.connect(id));
  expect(await client.call('old__mark')).toBe('old');
  expect(await client.call('young__mark')).toBe('young');
  const asked = await fetch(`${http.url}/mcp`, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  expect(asked.status).toBe(415);
  await closing.close();
  expect(folders()).toEqual(before);
  await until(
    () => processes() === 0,
    5000,
    () => `${processes()} processes are left`,
  );
  await expect(fetch(`${http.url}/healthz`)).rejects.toThrow();
});

test('a configuration that is wrong is refused in words, at the start and at a reload', async () => {
  await expect(createTestGateway({ servers: { bad: { command: 'x', url: 'http://y' } } } as never)).rejects.toThrow(
    /bad/,
  );
  gateway = await createTestGateway({ servers: { old: server('old') } });
  await expect(gateway.reload({ version: 1, servers: { 'Not A Name': server('x') } })).rejects.toThrow(/Not A Name/);
  const client = await sdkClients['SDK v1'](gateway.connect((await gateway.createSession()).id));
  expect(await client.call('old__mark')).toBe('old');
  await client.close();
});
