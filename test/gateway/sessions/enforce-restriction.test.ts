import { afterEach, describe, expect, test, vi } from 'vitest';
import { pathWithoutBwrap } from '../../needs/bwrap.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { eras, openBoundedGateway } from '../bounded-gateway.ts';

const on = openBoundedGateway();
afterEach(() => void vi.unstubAllEnvs());

describe.each(eras)('in the %s era', (era) => {
  test('P14: calls to a server that goes are answered, its processes end, the lists change, the rest works on', async () => {
    await on.start(era);
    await on.left(0);
    const { id } = await on.gateway.createSession();
    const other = await on.gateway.createSession();
    const [one, all] = [await on.connect(id, era, 'drop'), await on.connect(id, era)];
    const bystander = await on.connect(other.id, era);
    expect(await all.tools()).toEqual(expect.arrayContaining(['keep__mark', 'drop__mark']));
    expect(await bystander.call('drop__mark')).toBe('done');
    const slow = [one.call('slow', { ms: 60_000 }), all.call('drop__slow', { ms: 60_000 })];
    // Answered after the slow ones were taken in: they are under way.
    expect(await Promise.all([one.call('mark'), all.call('drop__mark'), all.call('keep__mark')])).toEqual(
      Array(3).fill('done'),
    );
    if (era === 'modern') {
      const listening = all.told('notifications/subscriptions/acknowledged');
      void all.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
      await listening;
    }
    const running = on.processes();
    const changed = all.told('notifications/tools/list_changed');
    expect(await on.gateway.restrictSession(id, { servers: ['keep'] })).toMatchObject({ id, servers: ['keep'] });
    for (const words of await Promise.all(slow))
      expect(words).toContain('SERVER_NOT_AVAILABLE: The session was restricted');
    await changed;
    await until(
      () => on.processes() < running,
      5000,
      () => 'no process has ended',
    );
    expect(await all.tools()).toEqual(['keep__mark', 'keep__slow', 'keep__crash']);
    expect(await all.call('keep__mark')).toBe('done');
    expect(await all.call('drop__mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await one.call('mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await bystander.call('drop__mark')).toBe('done');
  });

  test('P6: what was started as direct ends when the session is sandboxed, and without a sandbox nothing starts in its place', async () => {
    vi.stubEnv('PATH', pathWithoutBwrap);
    await on.start(era);
    const { id } = await on.gateway.createSession();
    const [one, all] = [await on.connect(id, era, 'keep'), await on.connect(id, era)];
    const slow = [one.call('slow', { ms: 60_000 }), all.call('keep__slow', { ms: 60_000 })];
    await Promise.all([one.call('mark'), all.call('keep__mark')]);
    await on.gateway.restrictSession(id, { trustLevel: 'sandboxed' });
    for (const words of await Promise.all(slow)) expect(words).toContain('UPSTREAM_FAILED: The session was restricted');
    await on.left(0);
    expect(await one.call('mark')).toContain('SANDBOX_UNAVAILABLE');
    expect(await all.call('keep__mark')).toContain('SANDBOX_UNAVAILABLE');
    expect(on.processes()).toBe(0);
  });

  test('while a process is just starting, it does not come to life outside the new bounds', async () => {
    await on.start(era);
    const { id } = await on.gateway.createSession();
    const one = await on.connect(id, 'modern', 'keep');
    const calling = one.call('slow', { ms: 60_000 });
    await on.left(1);
    await on.gateway.restrictSession(id, { servers: [] });
    expect(await calling).toContain('SERVER_NOT_AVAILABLE');
    await on.left(0);
  });
});
