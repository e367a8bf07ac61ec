import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createSessions } from '../../../src/sessions/sessions.ts';
import { openSqliteStore } from '../../../src/stores/sqlite/sqlite-store.ts';
import { stdioRecorder } from '../../fixtures/start-recorder.ts';
import { counts } from '../../proof.ts';
import { modernRequest } from '../json-mcp-client.ts';
import { spawnRun } from '../start-ambit.ts';

const bounds = { ttlSeconds: 600, maxLifetimeSeconds: 3600, maxSessions: 10, maxPerUser: 10 };
let folder: string;
let storeDir: string;
const opened: Record<'live' | 'other' | 'ended', { id: string; token: string }> = {} as never;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-named-'));
  storeDir = join(folder, 'elsewhere');
  mkdirSync(storeDir);
  const store = await openSqliteStore({ file: join(storeDir, 'sessions.db') });
  const sessions = createSessions({ store, bounds });
  for (const name of ['live', 'other', 'ended'] as const) {
    const { session, token } = await sessions.create({ userId: 'ada', trustLevel: 'direct', id: `the-${name}-one` });
    opened[name] = { id: session.id, token };
  }
  await sessions.end(opened.ended.id);
  await sessions.close();
  await store.close();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** Runs a server in `ambit run`; returns the context it got, or how the command ended. */
async function run(
  env: Record<string, string>,
  ...flags: string[]
): Promise<{ code: number | null; said: string; stderr: string }> {
  const whole = { AMBIT_SESSION_STORE_DIR: storeDir, ...env };
  const child = spawnRun(folder, [stdioRecorder.command, ...stdioRecorder.args], { flags, env: whole });
  const stderr = text(child.stderr);
  child.stdin.on('error', () => {});
  child.stdin.write(`${JSON.stringify(modernRequest(1, 'tools/call', { name: 'whoami', arguments: {} }))}\n`);
  const lines = createInterface({ input: child.stdout });
  const exited = once(child, 'exit');
  const said = await Promise.race([once(lines, 'line').then(([line]) => String(line)), exited.then(() => '')]);
  child.stdin.end();
  await exited;
  return { code: child.exitCode, said, stderr: await stderr };
}

describe.concurrent('ambit run', () => {
  test('L2: opens a session with the id, user and agent that the environment names', async () => {
    const env = { AMBIT_SESSION_ID: 'brand-new-1', AMBIT_USER_ID: 'bob', AMBIT_AGENT_ID: 'a7' };
    const { code, said } = await run(env, '--trust', 'direct');
    expect(code).toBe(0);
    for (const told of ['brand-new-1', 'bob', 'a7']) expect(said).toContain(told);
  });

  test('L2: goes on in a session there is, by its id or by its token, and leaves it alive', async () => {
    const named = await run({ AMBIT_SESSION_ID: opened.live.id });
    const proven = await run({ AMBIT_SESSION_TOKEN: opened.live.token });
    for (const { code, said } of [named, proven]) {
      expect([code, said]).toEqual([0, expect.stringContaining(opened.live.id)]);
      expect(said).toContain('ada');
    }
    const store = await openSqliteStore({ file: join(storeDir, 'sessions.db') });
    expect((await store.usage(opened.live.id))?.calls).toBe(2);
    await store.close();
  });

  test.each(
    (
      [
        [
          'the token of another one',
          () => ({ AMBIT_SESSION_ID: opened.other.id, AMBIT_SESSION_TOKEN: opened.live.token }),
          1,
          /UNAUTHENTICATED/,
        ],
        ['one that has ended', () => ({ AMBIT_SESSION_ID: opened.ended.id }), 1, /SESSION_ENDED/],
        ['an id that is none', () => ({ AMBIT_SESSION_ID: '../../etc' }), 2, /AMBIT_SESSION_ID/],
        ['a token with a typo', () => ({ AMBIT_SESSION_TOKEN: `${opened.live.token}x` }), 1, /UNAUTHENTICATED/],
      ] as const
    ).slice(0, counts(3, 4)),
  )('L2: refuses %s', async (_, env, code, words) => {
    const refused = await run(env());
    expect(refused).toMatchObject({ code, said: '', stderr: expect.stringMatching(words) });
    expect(refused.stderr).not.toContain(opened.live.token);
  });
});
