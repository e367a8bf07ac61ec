import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { EmbeddedGateway } from '../../../../src/index.ts';
import { counts, proof } from '../../../proof.ts';
import { until } from '../../../sandbox/tagged-processes.ts';
import { callModern, initializeRequest, openClient, post, readOutcome } from '../../json-mcp-client.ts';
import { createQuietGateway } from '../../start-embedded-ambit.ts';
import { maxWaitMs, readJournal } from '../../start-probed-ambit.ts';
import { callersOfBothEras } from '../both-eras.ts';
import { fixtureServer, startWatchedAmbit, type WatchedAmbit } from '../start-watched-ambit.ts';

/** Short enough to wait for, long enough for an answer on a busy machine. */
const soon = { timeoutSeconds: 3 };
const pad = 'x'.repeat(2 << 20);
/** With their pads, more than is kept for a server that does not read. */
const crowd = 20;
let ambit: WatchedAmbit;

beforeAll(async () => {
  ambit = await startWatchedAmbit({
    servers: {
      late: fixtureServer('answers-late.js', soon),
      deaf: fixtureServer('stops-reading.js', soon),
      mute: fixtureServer('closes-stdout.js'),
    },
  });
  await ambit.expectHealthy();
});
afterEach(() => ambit.expectHealthy());
afterAll(() => ambit?.stop());

// Nearly all the time of these tests is spent waiting: they wait at the same time, except where memory is measured.
describe('an upstream that falls silent', { concurrent: !proof }, () => {
  describe.each(callersOfBothEras(() => ambit))('%s era', (era, call) => {
    test('silence is UPSTREAM_TIMEOUT; the late answer is dropped and hurts nobody', async () => {
      expect(await call('late', 'hold', {}, 'same')).toBe('!UPSTREAM_TIMEOUT');
      expect(await call('late', 'release', { text: 'in time' }, 'same')).toBe('in time');
      expect(await call('late', 'echo', { text: 'next' }, 'same')).toBe('next');
    });

    test('a server that closes its output but lives is replaced', async () => {
      expect(await call('mute', 'close')).toBe('!UPSTREAM_FAILED');
      expect(await call('mute', 'echo', { text: 'again' })).toBe('again');
    });

    test.runIf(proof || era === 'modern')(
      'a server that stops reading: OVERLOADED or UPSTREAM_TIMEOUT, and bounded memory (proof)',
      async () => {
        expect(await call('deaf', 'stop')).toBe('stopped');
        const outcomes = new Set<string>();
        const pouring = (async () => {
          for (let round = 0; round < counts(1, 16); round++) {
            const all = Array.from({ length: crowd }, (_, id) => call('deaf', 'echo', { pad }, id));
            for (const said of await Promise.all(all)) outcomes.add(said);
          }
        })();
        await ambit.expectMemoryWithin(250, pouring);
        expect([...outcomes].sort()).toEqual(['!OVERLOADED', '!UPSTREAM_TIMEOUT']);
      },
    );
  });

  test('notifications for a server that has stopped reading are dropped, not kept', async () => {
    const { id, token } = await ambit.session();
    const client = await openClient(ambit.mcp('deaf'), token);
    expect(readOutcome(await client.call('stop'))).toBe('stopped');
    // It keeps 32 MB, and what came last.
    await ambit.expectHeldWithin(45, async () => {
      for (let sent = 0; sent < counts(crowd, 1000); sent++) {
        expect((await client.send({ method: 'notifications/of/the/client', params: { pad } })).status).toBe(202);
      }
    });
    const dropped = () =>
      readJournal(ambit.dataDir).filter(
        (line) =>
          line.sessionId === id &&
          line.event === 'noise' &&
          (line as { what?: string }).what === 'it does not read its input',
      );
    await until(
      () => dropped().length > 0,
      maxWaitMs,
      () => 'the journal does not tell that notifications were dropped',
    );
  });
});

describe('an upstream that never says anything', () => {
  let folder: string;
  let gateway: EmbeddedGateway;
  let url: string;
  // Nobody is expected to answer here, so the shortest limits do.
  const never = { timeoutSeconds: 0.2 };

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-dead-'));
    gateway = await createQuietGateway(join(folder, 'data'), {
      sessions: { defaultTrust: 'direct' },
      processes: { startSeconds: 0.2 },
      servers: {
        dead: { command: '/bin/sleep', args: ['1000'], ...never },
        'dead-modern': { command: '/bin/sleep', args: ['1000'], ...never, era: 'modern' },
        'dead-at-start': { command: '/bin/sleep', args: ['1000'], timeoutSeconds: 3600, era: 'handshake' },
      },
    });
    ({ url } = await gateway.listen({ port: 0 }));
  });
  afterAll(async () => {
    await gateway?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  test('is a timeout, whatever is asked of it', async () => {
    const { token } = await gateway.createSession({});
    const told = await Promise.all([
      callModern(`${url}/mcp/dead-modern`, token, 'echo'),
      post(`${url}/mcp/dead`, token, JSON.stringify(initializeRequest())),
      post(`${url}/mcp/dead-at-start`, token, JSON.stringify(initializeRequest())),
      // Whoever does not answer when asked for its era is taken for one of the handshake era, for a while.
      callModern(`${url}/mcp/dead`, token, 'echo'),
    ]);
    expect(told.map(readOutcome)).toEqual(told.map(() => '!UPSTREAM_TIMEOUT'));
  });
});
