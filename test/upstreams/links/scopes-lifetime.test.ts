import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { pathWithoutBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { ended, eras, keptGateway, recorder, staysWith, twoSharing, type Whoami, whoami } from './scoped-gateway.ts';

// Nobody here is served in a sandbox: there is none.
beforeAll(() => void vi.stubEnv('PATH', pathWithoutBwrap));
afterAll(() => void vi.unstubAllEnvs());
const kept = keptGateway({
  servers: {
    modern: recorder('shared', 'modern'),
    handshake: recorder('shared', 'handshake'),
    own: recorder('session', 'modern'),
    'ending-modern': recorder('shared', 'modern'),
    'ending-handshake': recorder('shared', 'handshake'),
  },
});
beforeAll(() => Promise.all(eras.map((era) => staysWith(kept(), era))));

const pairs = eras.flatMap((server) => eras.map((client) => ({ server, client })));

/** Clients of both eras share a modern server; what a handshake server was told when it started differs for them. */
const mixed = { server: 'modern', client: 'modern', other: 'handshake' } as const;
const alike = pairs.map((pair) => ({ ...pair, other: pair.client }));
const ending = [mixed, ...alike.filter(({ server }) => proof || server === 'handshake')];

describe.each(ending)(
  'a $client and a $other client in front of a $server server that they share',
  ({ server: era, client, other }) => {
    test('when a session ends, what it waits for is answered and the process goes on; with the last one it ends', async () => {
      const on = kept();
      const { ann, bob, a, b } = await twoSharing(on, `ending-${era}`, client, other);
      const { pid } = await whoami(a);
      await b.call('echo');
      const pending = { a: a.call('slow', { key: 'a' }), b: b.call('slow', { key: 'b' }) };
      await Promise.all([a.call('echo'), b.call('echo')]);
      expect(await on.gateway.endSession(ann.id)).toBe(true);
      expect(await pending.a).toContain('SESSION_ENDED');
      expect(await a.call('echo')).toMatch(/SESSION_ENDED|initialize/);
      expect(await b.call('release', { key: 'b' })).toBe('released');
      expect(await pending.b).toBe('released b');
      expect((await whoami(b)).pid).toBe(pid);
      // The process starts again for those who are left, whoever it was started for first.
      expect(await b.call('exit')).toBe('gone');
      await ended(on, pid);
      const next = await whoami(b);
      expect(next.pid).not.toBe(pid);
      await on.gateway.endSession(bob.id);
      await ended(on, next.pid);
    });
  },
);

describe.each(pairs)(
  'a $client client in front of a $server server that all share',
  ({ server: era, client: speaks }) => {
    test('a session that is narrowed loses it at once, the other one does not', async () => {
      const on = kept();
      const { ann, a, b } = await twoSharing(on, era, speaks);
      const { pid } = await whoami(b);
      const pending = a.call('slow', { key: 'a' });
      await a.call('echo');
      await on.gateway.restrictSession(ann.id, { servers: [] });
      expect(await pending).toContain('SERVER_NOT_AVAILABLE');
      expect(await a.call('whoami')).toContain('SERVER_NOT_AVAILABLE');
      expect((await whoami(b)).pid).toBe(pid);
    });

    test('P8: with less trust a session is not served by what it used before', async () => {
      const on = kept();
      const { ann, a, b } = await twoSharing(on, era, speaks);
      const { pid } = await whoami(b);
      const pending = a.call('slow', { key: 'a' });
      await a.call('echo');
      await on.gateway.restrictSession(ann.id, { trustLevel: 'sandboxed' });
      expect(await pending).toContain('UPSTREAM_FAILED: The session was restricted');
      expect(await a.call('whoami')).toContain('SANDBOX_UNAVAILABLE');
      expect((await whoami(b)).pid).toBe(pid);
    });
  },
);

test.each(eras)('P8: nor is it at the address of all servers, for a %s client', async (era) => {
  const on = kept();
  const [ann, bob] = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
  const [a, b] = [await on.connect(ann, '*', era), await on.connect(bob, '*', era)];
  const { pid } = JSON.parse(await b.call('handshake__whoami')) as Whoami;
  expect(JSON.parse(await a.call('handshake__whoami'))).toMatchObject({ pid });
  await on.gateway.restrictSession(ann.id, { trustLevel: 'sandboxed' });
  expect(await a.call('handshake__whoami')).toContain('SANDBOX_UNAVAILABLE');
  expect(JSON.parse(await b.call('handshake__whoami'))).toMatchObject({ pid });
});

test.each(eras)('at the address of all servers a %s client shares as well, and is cut off as well', async (era) => {
  const on = kept();
  const [ann, bob] = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
  const [a, b] = [await on.connect(ann, '*', era), await on.connect(bob, '*', era)];
  const pids = async (name: string) => {
    const words = await Promise.all([a.call(name), b.call(name)]);
    return new Set(words.map((text) => (JSON.parse(text) as Whoami).pid));
  };
  expect((await pids('handshake__whoami')).size).toBe(1);
  expect((await pids('own__whoami')).size).toBe(2);
  const pending = [a.call('handshake__slow', { key: 'a' }), b.call('handshake__slow', { key: 'b' })];
  await Promise.all([a.call('handshake__echo'), b.call('handshake__echo')]);
  await on.gateway.endSession(ann.id);
  expect(await pending[0]).toContain('SESSION_ENDED');
  expect(await b.call('handshake__release', { key: 'b' })).toBe('released');
  expect(await pending[1]).toBe('released b');
});

test('a call that waits for the process to start does not reach it once its session has ended', async () => {
  const on = kept();
  const [ann, bob] = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
  const [a, b] = [await on.connect(ann, 'ending-modern', 'modern'), await on.connect(bob, 'ending-modern', 'modern')];
  // The signatures in what is recorded are random, but they hold no spaces.
  const waiting = [b.call('echo', { of: 'the call of bob' }), a.call('echo', { of: 'the call of ann' })];
  await on.gateway.endSession(ann.id);
  expect(await waiting[1]).toContain('SESSION_ENDED');
  expect(await waiting[0]).toContain('the call of bob');
  const recorded = await b.call('recorded');
  expect(recorded).toContain('the call of bob');
  expect(recorded).not.toContain('the call of ann');
});
