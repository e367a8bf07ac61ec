import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { EmbeddedGateway } from '../../../src/public/create-gateway.ts';
import { createTestGateway } from '../../../src/public/testing/index.ts';
import { startRecorder } from '../../fixtures/start-recorder.ts';
import { waitForCount, waitUntilAtMost } from '../../journeys/wait-until.ts';
import { taggedProcesses } from '../../sandbox/tagged-processes.ts';
import { sdkClients } from '../sdk-clients.ts';

const script = join(import.meta.dirname, '../../fixtures/reloaded/server.js');
const server = (mark: string, era = 'handshake') => ({
  command: process.execPath,
  args: [script],
  env: { MARK: mark, ERA: era },
});

type Servers = NonNullable<Parameters<typeof createTestGateway>[0]['servers']>;

/** One for all tests but that of its end; a reload puts in place what a test needs. */
let gateway: EmbeddedGateway;
let recorder: Awaited<ReturnType<typeof startRecorder>>;
let id: string;
beforeAll(async () => {
  [gateway, recorder] = await Promise.all([createTestGateway({}), startRecorder()]);
  ({ id } = await gateway.createSession());
});
afterAll(async () => {
  await gateway.close();
  await recorder.stop();
});
const serving = (servers: Servers) =>
  gateway.reload({ version: 1, store: { kind: 'memory' }, sessions: { defaultTrust: 'direct' }, servers });

describe.each(Object.entries(sdkClients))('%s in the same process', (_name, connect) => {
  test('reaches all servers, and each by itself', async () => {
    await serving({ old: server('old'), young: server('young', 'modern') });
    const all = await connect(gateway.connect(id));
    expect(await all.tools()).toEqual(expect.arrayContaining(['old__mark', 'young__mark']));
    expect([await all.call('old__mark'), await all.call('young__mark')]).toEqual(['old', 'young']);
    const one = await connect(gateway.connect(id, 'young'));
    expect(await one.tools()).toEqual(['mark', 'slow', 'crash']);
    expect(await one.call('mark')).toBe('young');
    await Promise.all([all.close(), one.close()]);
  });
});

let turns = 0;
describe.each(Object.entries(sdkClients))('%s in the same process', (_name, connect) => {
  test('goes on after a reload, and a slow call over HTTP is answered by the server it went to', async () => {
    // What one client comes after is what the next comes before.
    const [before, after] = [`turn ${turns}`, `turn ${++turns}`];
    const far = (turn: string) => ({ url: recorder.url, headers: { 'x-turn': turn }, era: 'handshake' as const });
    await serving({ far: far(before), near: server(before) });
    const all = await connect(gateway.connect(id));
    const one = await connect(gateway.connect(id, 'far'));
    expect(await all.call('near__mark')).toBe(before);
    const slow = [all.call('far__slow', { key: 'all' }), one.call('slow', { key: 'one' })];
    // Answered after the slow ones were taken in: they are under way when the reload comes.
    await Promise.all([all.call('far__echo'), one.call('echo')]);
    expect((await serving({ far: far(after), near: server(after) })).sort()).toEqual(['far', 'near']);
    expect(await Promise.all([all.call('near__mark'), all.call('near__mark')])).toEqual([after, after]);
    expect(await Promise.all([one.call('release', { key: 'one' }), one.call('echo')])).toEqual([
      'released',
      expect.stringContaining('"echo"'),
    ]);
    expect(await all.call('far__release', { key: 'all' })).toBe('released');
    expect(await Promise.all(slow)).toEqual(['released all', 'released one']);
    await Promise.all([all.close(), one.close()]);
  });
});

test('sessions are opened within their bounds, shown without their token, and ended', async () => {
  await serving({ old: server('old') });
  for (const other of await gateway.listSessions()) await gateway.endSession(other.id);
  const { id, token, trustLevel } = await gateway.createSession({ name: 'a-session', agentId: 'tester' });
  expect(trustLevel).toBe('direct');
  expect(await gateway.listSessions()).toEqual([expect.objectContaining({ id, name: 'a-session', agentId: 'tester' })]);
  expect(JSON.stringify(await gateway.listSessions())).not.toContain(token);
  const client = await sdkClients['SDK v1'](gateway.connect(id));
  expect(await client.call('old__mark')).toBe('old');
  expect(await gateway.endSession(id)).toBe(true);
  expect(await gateway.endSession(id)).toBe(false);
  expect(await gateway.listSessions()).toEqual([]);
  await expect(gateway.connect(id).start()).rejects.toThrow(/SESSION_NOT_FOUND|session/i);
  expect(await client.call('old__mark').catch((error: Error) => error.message)).toMatch(/session/i);
  await client.close();
});

/** Other tests make folders of the same kind in the usual place, so this test gets a temporary folder of its own. */
function useOwnTmpDir(): string {
  const place = mkdtempSync(join(tmpdir(), 'ambit-place-'));
  onTestFinished(() => rmSync(place, { recursive: true, force: true }));
  vi.stubEnv('TMPDIR', place);
  onTestFinished(() => void vi.unstubAllEnvs());
  return place;
}

test('closing leaves no process, no folder and no open address', async () => {
  const place = useOwnTmpDir();
  const processes = () => taggedProcesses(place).length;
  const closing = await createTestGateway({ servers: { old: server('old'), young: server('young', 'modern') } });
  expect(readdirSync(place)).toHaveLength(1);
  const { id, token } = await closing.createSession();
  const http = await closing.listen({ port: 0 });
  const client = await sdkClients['SDK v2, modern'](closing.connect(id));
  expect(await client.call('old__mark')).toBe('old');
  expect(await client.call('young__mark')).toBe('young');
  const asked = await fetch(`${http.url}/mcp`, { method: 'POST', headers: { authorization: `Bearer ${token}` } });
  expect(asked.status).toBe(415);
  await waitForCount(processes, 2, 50_000);
  await closing.close();
  expect(readdirSync(place)).toEqual([]);
  await waitUntilAtMost(processes, 0, 50_000);
  await expect(fetch(`${http.url}/healthz`)).rejects.toThrow();
});

test('a configuration that is wrong is refused in words, at the start and at a reload', async () => {
  const place = useOwnTmpDir();
  await expect(createTestGateway({ servers: { bad: { command: 'x', url: 'http://y' } } } as never)).rejects.toThrow(
    /bad/,
  );
  expect(readdirSync(place)).toEqual([]);
  await serving({ old: server('old') });
  await expect(gateway.reload({ version: 1, servers: { 'Not A Name': server('x') } })).rejects.toThrow(/Not A Name/);
  const client = await sdkClients['SDK v1'](gateway.connect((await gateway.createSession()).id));
  expect(await client.call('old__mark')).toBe('old');
  await client.close();
});
