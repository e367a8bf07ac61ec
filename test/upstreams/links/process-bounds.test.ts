import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { ended, freshGateway, recorder, whoami } from './scoped-gateway.ts';

const greedy = join(import.meta.dirname, '../../sandbox/bwrap/greedy-server.js');
const open = freshGateway();

describe.skipIf(!hasBwrap())('the processes of a sandboxed session', () => {
  test('S8: two calls with a process each share the memory of the session, and another session has its own', async () => {
    const server = { command: process.execPath, args: [greedy], scope: 'call' as const, era: 'modern' as const };
    const on = await open({ servers: { greedy: { ...server, sandbox: { memoryMb: 300 } } } });
    const [one, other] = await Promise.all([
      on.open({ trustLevel: 'sandboxed' }),
      on.open({ trustLevel: 'sandboxed', userId: 'bob' }),
    ]);
    const [mine, theirs] = await Promise.all([one, other].map((each) => on.connect(each, 'greedy', 'modern')));
    const calm = theirs?.call('hold', { mb: 180 });
    const refusals = await Promise.all(['a', 'b'].map(() => mine?.call('hold', { mb: 180 })));
    for (const each of refusals) expect(each).toMatch(/^UPSTREAM_FAILED: .*sandbox\.memoryMb is 300/);
    const lost = on.journal().filter(({ event, sessionId }) => event === 'ended' && sessionId === other.id);
    expect(lost).toEqual([]);
    await on.gateway.endSession(other.id);
    expect(await calm).toMatch(/^SESSION_ENDED/);
  });
});

test('S8: a full gateway ends an idle process for another user, and a reload widens it', async () => {
  const servers = { it: recorder('session', 'modern'), more: recorder('session', 'modern') };
  const on = await open({ servers, processes: { maxPerSession: 2, max: 2 } });
  const [ann, bob] = [await on.open({ userId: 'ann' }), await on.open({ userId: 'bob' })];
  const first = await whoami(await on.connect(ann, 'it', 'modern'));
  const second = await whoami(await on.connect(ann, 'more', 'modern'));
  const third = await whoami(await on.connect(bob, 'it', 'modern'));
  await ended(on, first.pid);
  expect(() => process.kill(second.pid, 0)).not.toThrow();
  // A process that is busy is nobody's to end.
  const busy = [await on.connect(ann, 'more', 'modern'), await on.connect(bob, 'it', 'modern')];
  const waiting = busy.map((client) => client.call('slow', { key: 'x' }));
  for (const client of busy) await expect.poll(() => client.call('recorded')).toContain('slow');
  const refused = await (await on.connect(ann, 'it', 'modern')).call('whoami');
  expect(refused).toMatch(/^OVERLOADED: The gateway has reached its limit of processes \(2\)\..*processes\.max/);
  const config = { version: 1 as const, sessions: { defaultTrust: 'direct' as const }, servers };
  await on.gateway.reload({ ...config, processes: { maxPerSession: 2, max: 3 } });
  const fourth = await whoami(await on.connect(ann, 'it', 'modern'));
  expect(new Set([second.pid, third.pid, fourth.pid]).size).toBe(3);
  for (const client of busy) await client.call('release', { key: 'x' });
  expect(await Promise.all(waiting)).toEqual(['released x', 'released x']);
});
