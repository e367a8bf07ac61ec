import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { AmbitError } from '../../src/errors.ts';
import { createServerActivity, createServerLogs, describeServers } from '../../src/gateway/server-activity.ts';
import type { ServerDefinition } from '../../src/upstreams/definition.ts';

describe('the logs of servers', () => {
  const bounds = { servers: 2, lines: 3, bytes: 1000 };
  const write = (logs: ReturnType<typeof createServerLogs>, server: string, ...texts: string[]) => {
    for (const text of texts) logs.add(server, { sessionId: 's', pid: 1, text });
  };
  const texts = (logs: ReturnType<typeof createServerLogs>, server: string) =>
    logs.list(server).map(({ text }) => text);

  test('the last lines of each server are kept, up to a number and a size', () => {
    const logs = createServerLogs(bounds);
    write(logs, 'a', '1', '2', '3', '4', '5');
    expect(texts(logs, 'a')).toEqual(['3', '4', '5']);
    write(logs, 'a', 'x'.repeat(850));
    expect(texts(logs, 'a')).toEqual(['x'.repeat(850)]);
    write(logs, 'a', 'y'.repeat(2000));
    expect(texts(logs, 'a')).toEqual([]);
    expect(logs.next('a', 0)).toBeUndefined();
    for (let count = 0; count < 100; count++) write(logs, 'a', String(count));
    expect(texts(logs, 'a')).toEqual(['97', '98', '99']);
  });

  test('lines that were dropped for their size take no memory', () => {
    setFlagsFromString('--expose-gc');
    const collect = runInNewContext('gc') as () => void;
    const logs = createServerLogs({ servers: 1, lines: 1000, bytes: 100_000 });
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let count = 0; count < 900; count++) write(logs, 'a', Buffer.alloc(24_000, 97).toString('latin1'));
    collect();
    // All lines together have 21 MB.
    expect(process.memoryUsage().heapUsed - before).toBeLessThan(5_000_000);
    expect(texts(logs, 'a')).toHaveLength(4);
  });

  test('of more servers, the one that was silent for longest is forgotten, unless somebody reads it', () => {
    const logs = createServerLogs(bounds);
    const stop = logs.onLine('a', () => {});
    for (const server of ['a', 'b', 'c']) write(logs, server, server);
    expect(['a', 'b', 'c'].map((server) => texts(logs, server).length)).toEqual([1, 0, 1]);
    stop();
    write(logs, 'd', 'd');
    expect(['a', 'c', 'd'].map((server) => texts(logs, server).length)).toEqual([0, 1, 1]);
  });

  test('a reader learns how many lines it missed', () => {
    const logs = createServerLogs(bounds);
    let heard = 0;
    const stop = logs.onLine('a', () => heard++);
    write(logs, 'a', '1', '2', '3', '4', '5');
    expect(logs.next('a', 1)).toMatchObject({ dropped: 1, line: { number: 3, text: '3' } });
    expect(logs.next('a', 4)).toMatchObject({ dropped: 0, line: { number: 5 } });
    expect(logs.next('a', 5)).toBeUndefined();
    stop();
    write(logs, 'a', '6');
    expect(heard).toBe(5);
  });
});

describe('the state of a server', () => {
  const define = (kind: 'stdio' | 'http', more: object = {}) =>
    ({ name: 'x', kind, era: 'auto', source: 'operator', trust: ['direct'], ...more }) as unknown as ServerDefinition;
  const approved = { checkInPieces: async () => ({ state: 'approved' as const }) };

  async function stateAfter(server: ServerDefinition, ...steps: ('spawned' | 'ended' | 'answered' | 'failed')[]) {
    const activity = createServerActivity();
    for (const step of steps) {
      if (step === 'failed')
        activity.failed('x', new AmbitError('UPSTREAM_FAILED', { what: 'password=hunter22\u001b[2J' }));
      else activity[step]('x');
    }
    const [described] = await describeServers([server], approved, {
      activity,
      eraOf: () => undefined,
      usesSse: () => false,
    });
    return described;
  }

  test.each([
    ['stdio', [], 'idle'],
    ['stdio', ['spawned', 'answered'], 'running'],
    ['stdio', ['spawned', 'answered', 'ended'], 'idle'],
    ['stdio', ['spawned', 'ended', 'failed'], 'failed'],
    ['stdio', ['spawned', 'ended', 'failed', 'spawned', 'answered', 'ended'], 'idle'],
    ['http', ['answered'], 'reachable'],
    ['http', ['answered', 'failed'], 'unreachable'],
    ['http', ['failed', 'answered'], 'reachable'],
  ] as const)('%s after %j: %s', async (kind, steps, state) => {
    expect(await stateAfter(define(kind), ...steps)).toMatchObject({ state });
  });

  test('the last error has no secrets and no control characters', async () => {
    expect((await stateAfter(define('stdio'), 'failed'))?.lastError?.message).toBe('password=[secret]');
  });

  test('without a gateway only files are known', async () => {
    const unapproved = { checkInPieces: async () => ({ state: 'unapproved' as const, changes: [] }) };
    const servers = [define('stdio', { source: 'project', era: 'modern' })];
    expect(await describeServers(servers, unapproved)).toMatchObject([
      { state: null, processes: null, lastError: null, era: 'modern', approval: 'unapproved' },
    ]);
    const live = { activity: createServerActivity(), eraOf: () => undefined, usesSse: () => false };
    expect(await describeServers(servers, unapproved, live)).toMatchObject([{ state: 'unapproved', processes: 0 }]);
  });
});
