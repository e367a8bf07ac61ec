import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { AmbitError } from '../../src/errors.ts';
import { createExternalKeys } from '../../src/identity/external-keys.ts';
import { parseToken } from '../../src/identity/token.ts';
import { readWebhookKey } from '../../src/sessions/events/webhook.ts';
import { verifySignature } from '../sessions/events/webhook-receiver.ts';
import { startKeyService } from './key-service.ts';

const secretText = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const key = 'pcp_live_0123456789abcdef';

/** Keys that a service of this test verifies, and clocks that only the test moves. */
async function openKeys(more: Pick<Parameters<typeof createExternalKeys>[0], 'maxInVain'> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-external-'));
  const file = join(folder, 'secret');
  writeFileSync(file, secretText, { mode: 0o600 });
  const service = await startKeyService();
  service.keys.set(key, { user: 'ana' });
  const [lines, results, revoked]: string[][] = [[], [], []] as never;
  let clock = 1_000_000;
  const note = (event: string, fields: object = {}) => void lines?.push(`${event} ${JSON.stringify(fields)}`);
  const keys = createExternalKeys({
    log: { info: note, warn: note },
    onResult: (result) => void results?.push(result),
    now: () => 1_800_000_000_000 + clock,
    elapsed: () => clock,
    ...more,
  });
  const secret = readWebhookKey({ file, key: 'auth.keys.secretFile' });
  const use = (url = service.url, cacheSeconds = 30) => keys.replace({ url, cacheSeconds, secret });
  use();
  keys.onRevoked((userId, keyId) => void revoked?.push(`${userId} ${keyId.slice(0, 4)}`));
  onTestFinished(() => {
    keys.close();
    rmSync(folder, { recursive: true });
  });
  return {
    keys,
    service,
    lines: lines as string[],
    results: results as string[],
    revoked: revoked as string[],
    use,
    advance: (ms: number) => {
      clock += ms;
    },
    at: (ms: number) => new Date(1_800_000_000_000 + clock + ms).toISOString(),
    /** The user of a key, or the code of the refusal. */
    async verify(token = key, address = '192.0.2.1'): Promise<string> {
      try {
        return (await keys.verify(parseToken(token), address)).userId;
      } catch (error) {
        return (error as AmbitError).code;
      }
    },
  };
}

describe('a key of another system', () => {
  test('G2: proves the user that the signed callback names, within the limits of the answer', async () => {
    const { keys, service } = await openKeys();
    const limits = { trust: 'direct', workspaces: ['shop', 'shop'], permissions: ['notes:write', 'a:b'], agent: 'bot' };
    service.keys.set(key, { user: 'ana', ...limits });
    const { keyId, ...principal } = await keys.verify(parseToken(key));
    expect(principal).toEqual({
      kind: 'user',
      userId: 'ana',
      via: 'key',
      ceiling: { trustLevel: 'direct', workspaces: ['shop'], scopes: ['a:b', 'notes:write'], agentId: 'bot' },
    });
    expect(keyId).toMatch(/^ext-[0-9a-f]{32}$/);
    const [question] = service.asked;
    expect(question?.body).toBe(JSON.stringify({ key }));
    expect(await verifySignature(question as never, secretText)).toBe(true);
    expect(await verifySignature(question as never, `whsec_${Buffer.alloc(32, 8).toString('base64')}`)).toBe(false);
    service.keys.set('pcp_plain_key', { user: 'bob' });
    const { ceiling } = await keys.verify(parseToken('pcp_plain_key'));
    // What the answer leaves out is the least, but for the workspaces.
    expect(ceiling).toEqual({ trustLevel: 'sandboxed', workspaces: null, scopes: [] });
  });

  test('is asked for once in a while, and never taken beyond its end', async () => {
    const { service, verify, advance, at } = await openKeys();
    const longer = `${key}0`;
    service.keys.set(longer, { user: 'eve', expiresAt: at(10_000) });
    for (let i = 0; i < 3; i++) expect([await verify(), await verify(longer)]).toEqual(['ana', 'eve']);
    expect(service.asked.map((each) => each.key)).toEqual([key, longer]);
    advance(10_000);
    expect([await verify(), await verify(longer)]).toEqual(['ana', 'UNAUTHENTICATED']);
    expect(service.asked).toHaveLength(3);
    advance(20_000);
    expect(await verify()).toBe('ana');
    expect(service.asked).toHaveLength(4);
  });

  test.each([401, 403, 404])('that is answered with %d is refused, and asked for again soon', async (status) => {
    const { service, verify, advance, revoked } = await openKeys();
    service.answer = (response) => void response.writeHead(status).end(JSON.stringify({ user: 'ana' }));
    for (let i = 0; i < 3; i++) expect(await verify()).toBe('UNAUTHENTICATED');
    expect(service.asked).toHaveLength(1);
    service.answer = undefined;
    advance(5000);
    expect(await verify()).toBe('ana');
    expect(revoked).toEqual([]);
  });

  const say = (value: unknown) => (response: ServerResponse) => void response.end(JSON.stringify(value));
  const wrongAnswers: [string, (response: ServerResponse) => void][] = [
    ['an error', (response) => void response.writeHead(500).end(JSON.stringify({ user: 'ana' }))],
    ['no content', (response) => void response.writeHead(204).end()],
    ['a broken connection', (response) => void response.destroy()],
    ['half an answer', (response) => void response.write('{"user":"ana"', () => response.destroy())],
    ['no JSON', (response) => void response.end('ana')],
    ['no object', say('ana')],
    ['null', say(null)],
    ['no user', say({ trust: 'direct' })],
    ['a list as user', say({ user: ['ana'] })],
    ['the local user', say({ user: 'local' })],
    ['the anonymous user', say({ user: 'Anonymous' })],
    ['a user of an identity provider', say({ user: 'id.example.com|7' })],
    ['a name with a line break', say({ user: 'ana\n' })],
    ['an unknown trust level', say({ user: 'ana', trust: 'root' })],
    ['all workspaces as a word', say({ user: 'ana', workspaces: 'all' })],
    ['no workspace', say({ user: 'ana', workspaces: [] })],
    ['null for workspaces', say({ user: 'ana', workspaces: null })],
    ['a permission with a blank', say({ user: 'ana', permissions: ['notes write'] })],
    ['a misspelled limit', say({ user: 'ana', workspace: ['shop'] })],
    ['a date without a time zone', say({ user: 'ana', expiresAt: '2099-01-01T00:00:00' })],
    ['a long answer', (response) => void response.end(`{"user":"ana"${' '.repeat(70_000)}}`)],
    ['an endless answer', (response) => void sendForever(response)],
  ];

  test('is refused as unavailable after any other answer', async () => {
    const { service, verify, results, lines, revoked, advance } = await openKeys();
    for (const [what, answer] of wrongAnswers) {
      for (const list of [results, lines]) list.length = 0;
      service.answer = undefined;
      expect(await verify(), what).toBe('ana');
      service.answer = answer;
      expect(await verify(`pcp_${what}`), what).toBe('IDENTITY_UNAVAILABLE');
      expect([results.at(-1), lines.length], what).toEqual(['failed', 1]);
      expect(lines[0]).not.toMatch(/pcp_|tenant|planted/);
      advance(60_000);
      // It says nothing about a key that was accepted.
      expect(await verify(), what).toBe('IDENTITY_UNAVAILABLE');
      expect(revoked, what).toEqual([]);
      advance(60_000);
    }
  });

  test('never follows a redirect, and never waits long', async () => {
    const { service, verify, lines } = await openKeys();
    const elsewhere = await startKeyService();
    elsewhere.keys.set(key, { user: 'mallory' });
    for (const status of [301, 302, 307, 308]) {
      service.answer = (response) => void response.writeHead(status, { location: elsewhere.url }).end();
      expect(await verify(`${key}${status}`)).toBe('IDENTITY_UNAVAILABLE');
    }
    expect(elsewhere.asked).toEqual([]);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const arrived = new Promise<ServerResponse>((resolve) => {
      service.answer = resolve;
    });
    const late = verify(`${key}-slow`);
    const response = await arrived;
    const gone = new Promise((resolve) => response.on('close', resolve));
    vi.advanceTimersByTime(5000);
    expect(await late).toBe('IDENTITY_UNAVAILABLE');
    await gone;
    service.close();
    expect(await verify(`${key}-down`)).toBe('IDENTITY_UNAVAILABLE');
    expect(lines.at(-2)).toContain('no answer in time');
    expect(lines.at(-1)).toContain('ECONNREFUSED');
  });

  test('in many requests at once is asked for once, and each key gets its own answer', async () => {
    const { service, verify } = await openKeys();
    const waiting: (() => void)[] = [];
    const both = new Promise<void>((resolve) => {
      service.answer = (response, question) => {
        waiting.push(() => response.end(JSON.stringify({ user: question.key === key ? 'ana' : 'eve' })));
        if (waiting.length === 2) resolve();
      };
    });
    const verified = [key, `${key}x`, key, `${key}x`, key].map((each) => verify(each));
    await both;
    for (const answer of waiting.reverse()) answer();
    expect(await Promise.all(verified)).toEqual(['ana', 'eve', 'ana', 'eve', 'ana']);
    expect(service.asked).toHaveLength(2);
  });
});

function sendForever(response: ServerResponse): void {
  const send = () => {
    while (response.write('{"user":"ana"}'));
  };
  response.on('drain', send).on('error', () => {});
  send();
}

test('S6: tokens of Ambit, with typos, and JWTs of any issuer never leave', async () => {
  const { keys } = await openKeys();
  const mayLeave = (token: string) => keys.mayBeKey(parseToken(token));
  const id = 'ab'.repeat(16);
  const jwt = `${Buffer.from('{ "alg":"none"}').toString('base64url')}.e30.x`;
  const own = ['ambk', 'AMBK', 'ambs', 'amba', '"ambk'].map((kind) => `${kind}_${id}_${'a'.repeat(49)}`);
  for (const token of own) {
    for (const each of [token, token.slice(0, -1), `${token}x`, token.slice(0, 20)]) expect(mayLeave(each)).toBe(false);
  }
  for (const start of ['admin', 'abma_admin', 'amba-admin']) expect(mayLeave(`${start}_${'a'.repeat(49)}`)).toBe(false);
  for (const each of [`abmk_${id}_${'a'.repeat(49)}`, jwt, 'eyJhbGciOiJub25lIn0.e30.x', 'eyJhbGci', '', 'short'])
    expect(mayLeave(each)).toBe(false);
  expect(mayLeave('x'.repeat(513))).toBe(false);
  for (const each of [key, 'SG.abcdefgh.ijklmnop', '1|sanctum-token', 'samba_live_123456', 'a'.repeat(64)])
    expect(mayLeave(each)).toBe(true);
  keys.replace(undefined);
  expect(mayLeave(key)).toBe(false);
});

test('S7: unknown keys ask the callback only so often, and do not stop those that it knows', async () => {
  const { service, verify, advance, results } = await openKeys({ maxInVain: { perAddress: 6, all: 15 } });
  const guess = (from: number, address?: string) =>
    Promise.all(Array.from({ length: 10 }, (_, i) => verify(`pcp_guess_${from + i}`, address)));
  // Whoever is accepted has used nothing of it.
  for (let i = 0; i < 40; i++) service.keys.set(`pcp_member_${i}`, { user: `member${i}` });
  for (let i = 0; i < 40; i++) expect(await verify(`pcp_member_${i}`)).toBe(`member${i}`);
  service.asked.length = 0;
  const codes = await guess(0);
  expect(codes.filter((code) => code === 'UNAUTHENTICATED')).toHaveLength(6);
  expect(codes.filter((code) => code === 'IDENTITY_UNAVAILABLE')).toHaveLength(4);
  expect(service.asked).toHaveLength(6);
  expect(results.filter((each) => each === 'limited')).toHaveLength(4);
  // Another address has its own share, up to the limit for all.
  await guess(10, '192.0.2.2');
  await guess(20, '192.0.2.3');
  expect(service.asked).toHaveLength(15);
  expect(await verify(key, '198.51.100.1')).toBe('IDENTITY_UNAVAILABLE');
  // Members stay, though their time in the cache is over.
  advance(30_000);
  expect(await verify('pcp_member_7')).toBe('member7');
  expect(await verify(key, '198.51.100.1')).toBe('ana');
});

describe('L12: an accepted key', () => {
  test('that is refused, or stands for someone else, counts as revoked', async () => {
    const { keys, service, verify, advance, revoked } = await openKeys();
    service.keys.set(key, { user: 'ana', workspaces: ['a', 'b'], permissions: ['x', 'y'] });
    const { keyId = '' } = await keys.verify(parseToken(key));
    const answers = [
      { user: 'ana', workspaces: ['b', 'a'], permissions: ['y', 'x'], expiresAt: '2099-01-01T00:00:00Z' },
      { user: 'ana', workspaces: ['a'], permissions: ['x', 'y'] },
      { user: 'eve', workspaces: ['a'], permissions: ['x', 'y'] },
    ];
    const seen: number[] = [];
    for (const answer of answers) {
      service.keys.set(key, answer);
      advance(30_000);
      expect(await verify()).toBe(answer.user);
      seen.push(revoked.length);
    }
    expect([seen, keys.isGood(keyId)]).toEqual([[0, 1, 2], true]);
    service.keys.clear();
    advance(30_000);
    expect(await verify()).toBe('UNAUTHENTICATED');
    expect(revoked).toEqual(['ana ext-', 'ana ext-', 'eve ext-']);
    expect(keys.isGood(keyId)).toBe(false);
  });

  test('is verified again by itself as long as a request with it is served', async () => {
    const { keys, service, advance } = await openKeys();
    const presented = parseToken(key);
    const release = keys.hold(await keys.verify(presented), presented);
    const revoked = new Promise((resolve) => keys.onRevoked(resolve));
    service.keys.clear();
    advance(30_000);
    expect(await revoked).toBe('ana');
    release();
  });

  test('is gone with its callback, and an answer on its way is not used', async () => {
    const { keys, service, verify, revoked, use } = await openKeys();
    const other = await startKeyService();
    expect(await verify()).toBe('ana');
    const arrived = new Promise<ServerResponse>((resolve) => {
      service.answer = resolve;
    });
    const late = verify('pcp_late_key');
    const response = await arrived;
    use(other.url);
    expect(revoked).toEqual(['ana ext-']);
    expect(await verify()).toBe('UNAUTHENTICATED');
    response.end(JSON.stringify({ user: 'ana' }));
    expect(await late).toBe('IDENTITY_UNAVAILABLE');
    expect(await verify('pcp_late_key')).toBe('UNAUTHENTICATED');
    keys.replace(undefined);
    expect(await verify()).toBe('UNAUTHENTICATED');
    expect(other.asked).toHaveLength(2);
  });
});
