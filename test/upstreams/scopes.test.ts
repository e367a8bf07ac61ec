import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { isAlive, until } from '../runners/tagged-processes.ts';
import { eras, freshGateway, recorder, type Scope, whoami } from './scoped-gateway.ts';

const start = freshGateway();

const pairs = eras.flatMap((server) => eras.map((client) => ({ server, client })));

describe.each(pairs)('a $client client in front of a $server server', ({ server: era, client: speaks }) => {
  /** Who shares with whom, by the names of the sessions below. */
  const expected: Readonly<Record<Exclude<Scope, 'call'>, readonly string[]>> = {
    session: ['ann', 'ann again', 'ann in two', 'bob', 'ann nowhere'],
    user: ['ann + ann again', 'ann in two', 'bob', 'ann nowhere'],
    workspace: ['ann + ann again + bob', 'ann in two', 'ann nowhere'],
    shared: ['ann + ann again + ann in two + bob + ann nowhere'],
  };

  test.each(Object.keys(expected) as (keyof typeof expected)[])(
    'P8: who shares a process at scope %s, and what it is told',
    async (scope) => {
      const on = await start({ servers: { it: recorder(scope, era) } });
      const sessions = {
        ann: await on.open({ userId: 'ann', workspaceId: 'one', agentId: 'x' }),
        'ann again': await on.open({ userId: 'ann', workspaceId: 'one', agentId: 'y' }),
        'ann in two': await on.open({ userId: 'ann', workspaceId: 'two' }),
        bob: await on.open({ userId: 'bob', workspaceId: 'one' }),
        'ann nowhere': await on.open({ userId: 'ann' }),
      };
      const found = await Promise.all(
        Object.entries(sessions).map(async ([name, session]) => {
          const client = await on.connect(session, 'it', speaks);
          const [me, again] = await Promise.all([whoami(client), whoami(client)]);
          expect(again).toEqual(me);
          // Whoever shares the process: each call says for itself.
          const { params } = JSON.parse(await client.call('echo')) as { params: { _meta: Record<string, object> } };
          expect(params._meta['ambit/context']).toMatchObject({ sessionId: session.id, trustLevel: 'direct' });
          return { name, session, me };
        }),
      );
      const pids = [...new Set(found.map(({ me }) => me.pid))];
      const groups = pids.map((pid) =>
        found
          .filter(({ me }) => me.pid === pid)
          .map(({ name }) => name)
          .join(' + '),
      );
      expect(groups.sort()).toEqual([...expected[scope]].sort());
      for (const { name, session, me } of found) {
        const draft = (await on.gateway.listSessions()).find(({ id }) => id === session.id);
        const workspaceId = draft?.workspaceId ?? '';
        const path = workspaceId === '' ? '' : join(on.folder, workspaceId);
        const ofPlace = { AMBIT_WORKSPACE_ID: workspaceId, AMBIT_WORKSPACE_PATH: path, AMBIT_TRUST_LEVEL: 'direct' };
        const ofUser = { ...ofPlace, AMBIT_USER_ID: draft?.userId };
        const own = { ...ofUser, AMBIT_SESSION_ID: session.id, AMBIT_AGENT_ID: draft?.agentId ?? '' };
        const alone = scope === 'session' || (scope === 'workspace' && name === 'ann nowhere');
        const { AMBIT_JWKS, ...told } = me.told;
        expect(AMBIT_JWKS).toContain('"keys"');
        expect(told).toEqual(alone ? own : { session: own, user: ofUser, workspace: ofPlace, shared: {} }[scope]);
        const works = path !== '' && (scope === 'session' || scope === 'workspace');
        expect(realpathSync(me.cwd)).toMatch(works ? realpathSync(path) : join('data', 'run'));
      }
    },
  );

  test('at scope call every request has a process of its own, which ends when it has answered', async () => {
    const on = await start({ servers: { it: recorder('call', era) } });
    const session = await on.open({ userId: 'ann', workspaceId: 'one' });
    const client = await on.connect(session, 'it', speaks);
    const seen = [await whoami(client), ...(await Promise.all([whoami(client), whoami(client)]))];
    expect(new Set(seen.map(({ pid }) => pid)).size).toBe(3);
    for (const { told, cwd } of seen) {
      expect(told).toMatchObject({ AMBIT_SESSION_ID: session.id, AMBIT_WORKSPACE_ID: 'one' });
      expect(realpathSync(cwd)).toBe(realpathSync(join(on.folder, 'one')));
    }
    await until(
      () => seen.every(({ pid }) => !isAlive(pid)),
      5000,
      () => 'a process has outlived its call',
    );
  });
});
