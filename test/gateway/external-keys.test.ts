import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import { startKeyService } from '../identity/key-service.ts';
import { connectRawClient, readRefusalCode } from '../journeys/abandoned/raw-client.ts';
import { callModern } from '../journeys/json-mcp-client.ts';
import { connectHandshake, patience, sendModern } from '../journeys/raw-mcp-client.ts';
import { verifySignature } from '../sessions/events/webhook-receiver.ts';
import { createKeyFor, findSession, trySession } from './keyed-gateway.ts';
import { createSharedData, type ServedGateway } from './shared-data.ts';

const program = join(import.meta.dirname, '../journeys/abandoned/fixtures/upstream.js');
const servers = { it: { command: process.execPath, args: [program] } };
const key = 'pcp_live_0123456789abcdef';
const data = createSharedData();
const listen = { method: 'subscriptions/listen', params: '"notifications":{"toolsListChanged":true}' };

async function serve(more: Parameters<typeof data.serve>[0] = {}) {
  const service = await startKeyService();
  service.keys.set(key, { user: 'ana' });
  const { auth, ...rest } = more;
  const config = { ...rest, auth: { keys: { url: service.url }, ...auth } };
  return { service, config, at: await data.serve(config) };
}

const statusOf = async (at: ServedGateway, token: string) =>
  (await callModern(at.mcp('ambit'), token, 'session_info', { session: 'current' })).status;

/** Lets the time of the cache pass. */
function passTime(): void {
  const now = performance.now.bind(performance);
  const clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + 31_000);
  onTestFinished(() => clock.mockRestore());
}

describe('a key of another system at a gateway', () => {
  test('G2: opens and finds sessions of its user, within its limits, and is written nowhere', async () => {
    const { service, at } = await serve();
    const narrow = 'pcp_narrow_0123456789abcdef';
    service.keys.set(narrow, { user: 'ana', agent: 'bot' });
    service.keys.set('pcp_direct_0123456789abcdef', { user: 'eve', trust: 'direct' });
    const own = await createKeyFor(at, 'ana', { trustLevel: 'sandboxed', scopes: [] });
    const found = await findSession(at, key);
    expect(found).toMatchObject({ userId: 'ana', trustLevel: 'sandboxed' });
    // The user is the one of the directory, whoever issued the key, and limits are kept apart as those of keys are.
    expect((await findSession(at, own.key)).id).toBe(found.id);
    expect((await findSession(at, narrow)).id).not.toBe(found.id);
    expect(await trySession(at, narrow, { 'ambit/use-session': found.id })).toContain('SESSION_NOT_FOUND');
    // Several users can call: what the answer allows is not above the bounds of the configuration.
    expect(await findSession(at, 'pcp_direct_0123456789abcdef')).toMatchObject({ trustLevel: 'sandboxed' });
    const secret = readFileSync(join(data.dataDir, 'key-callback-secret'), 'utf8').trim();
    for (const question of service.asked) expect(await verifySignature(question, secret)).toBe(true);
    expect(service.asked).toHaveLength(3);
    await at.close();
    const calls = data.journal().filter(({ kind, name }) => kind === 'call' && name === 'session_info');
    expect(new Set(calls.map(({ keyId }) => String(keyId).slice(0, 4)))).toEqual(new Set(['ext-', own.id.slice(0, 4)]));
    const files = readdirSync(data.dataDir, { recursive: true, withFileTypes: true }).filter((each) => each.isFile());
    for (const file of files) {
      const bytes = readFileSync(join(file.parentPath, file.name));
      expect(bytes.includes('0123456789abcdef') && bytes.includes('pcp_'), file.name).toBe(false);
    }
  });

  test('G3: that is refused is nobody where that is allowed, but never without a clear answer', async () => {
    const { service, at } = await serve({ auth: { anonymous: 'loopback', onInvalidKey: 'anonymous' } });
    for (let i = 0; i < 2; i++) expect(await findSession(at, 'pcp_unknown_key')).toMatchObject({ userId: 'anonymous' });
    service.answer = (response) => void response.writeHead(500).end();
    expect(await statusOf(at, 'pcp_other_key')).toBe(503);
    expect(JSON.stringify(data.warnings())).not.toMatch(/pcp_|planted/);
  });

  test('S6: is no administrator, and other tokens do not reach the callback', async () => {
    const { service, at } = await serve();
    service.answer = (response) => void response.end(JSON.stringify({ user: 'mallory' }));
    const own = await createKeyFor(at, 'ana');
    const session = await at.open();
    const typos = [own.key, session.token].flatMap((each) => [`${each}x`, each.slice(0, -1), each.toUpperCase()]);
    for (const token of [...typos, 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJ4In0.x'])
      expect(await statusOf(at, token)).toBe(401);
    const api = await fetch(`${at.url}/api/v1/sessions`, { headers: { authorization: `Bearer ${key}` } });
    expect([api.status, service.asked]).toEqual([401, []]);
    service.answer = undefined;
    expect(await statusOf(at, 'pcp_unknown_key')).toBe(401);
    service.close();
    expect(await statusOf(at, 'pcp_other_key')).toBe(503);
  });
});

describe('L12: a key that its system no longer accepts', () => {
  test('ends its sessions and the streams that were opened with it', async () => {
    const { service, at } = await serve();
    const other = `${key}-other`;
    service.keys.set(other, { user: 'ana' });
    const { id } = await findSession(at, key);
    expect((await findSession(at, other)).id).toBe(id);
    const client = await connectHandshake(at.mcp('ambit'), other);
    const streams = [await client.listen(), await sendModern(at.mcp('ambit'), other, listen)];
    const staying = await sendModern(at.mcp('ambit'), key, listen);
    expect([...streams, staying].map(({ status }) => status)).toEqual([200, 200, 200]);
    service.keys.delete(other);
    passTime();
    expect(await statusOf(at, other)).toBe(401);
    // Each of these ends by itself, or the test waits until it times out.
    await Promise.all(streams.map((each) => each.rest()));
    expect((await findSession(at, key)).id).toBe(id);
    service.keys.delete(key);
    vi.spyOn(performance, 'now').mockImplementation(() => 1e9);
    await staying.rest();
    await expect.poll(() => at.gateway.sessions.whyGone(id), patience).toBe('revoked');
  });

  test('ends a call that is under way, though nothing else is asked with it', async () => {
    const { service, at } = await serve({ servers, sessions: { allowDirect: 'always' } });
    service.keys.set(key, { user: 'ana', trust: 'direct' });
    const client = await connectRawClient('modern', { url: at.mcp('it'), token: key });
    await client.whoami();
    const call = client.call('hang');
    await call.begun;
    service.keys.delete(key);
    passTime();
    expect(readRefusalCode(await call.answered)).toBe('SESSION_ENDED');
    await at.close();
    expect(data.journal()).toContainEqual(expect.objectContaining({ event: 'key-revoked', userId: 'ana' }));
  });

  test('because the configuration has no callback any more, or another, starts anew', async () => {
    const { config, at } = await serve();
    const reload = async (auth: object) => {
      const text = JSON.stringify({ version: 1, ...config, auth });
      at.gateway.reload((await loadConfig({ text, file: join(data.folder, 'etc', 'ambit.yaml') })).config);
    };
    const [first, stream] = [await findSession(at, key), await sendModern(at.mcp('ambit'), key, listen)];
    // The same callback changes nothing.
    await reload(config.auth);
    expect((await findSession(at, key)).id).toBe(first.id);
    const missing = { keys: { ...config.auth.keys, secretFile: join(data.folder, 'etc', 'missing') } };
    await expect(reload(missing)).rejects.toThrow('auth.keys.secretFile: there is no file');
    expect((await findSession(at, key)).id).toBe(first.id);
    await reload({});
    await stream.rest();
    expect(await statusOf(at, key)).toBe(401);
    await expect.poll(() => at.gateway.sessions.whyGone(first.id), patience).toBe('revoked');
    const other = await startKeyService();
    other.keys.set(key, { user: 'bob' });
    await reload({ keys: { url: other.url } });
    expect(await findSession(at, key)).toMatchObject({ userId: 'bob' });
  });
});
