import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { isAlive, until } from '../../sandbox/tagged-processes.ts';
import { type Era, eras, keptGateway, recorder, type Scope, whoami } from './scoped-gateway.ts';

type Lasting = Exclude<Scope, 'call'>;

/** Who shares with whom, by the names of the sessions below. */
const expected: Readonly<Record<Lasting, readonly string[]>> = {
  session: ['ann', 'ann again', 'ann in two', 'bob', 'ann nowhere'],
  user: ['ann + ann again', 'ann in two', 'bob', 'ann nowhere'],
  workspace: ['ann + ann again + bob', 'ann in two', 'ann nowhere'],
  shared: ['ann + ann again + ann in two + bob + ann nowhere'],
};
const drafts = {
  ann: { userId: 'ann', workspaceId: 'one', agentId: 'x' },
  'ann again': { userId: 'ann', workspaceId: 'one', agentId: 'y' },
  'ann in two': { userId: 'ann', workspaceId: 'two' },
  bob: { userId: 'bob', workspaceId: 'one' },
  'ann nowhere': { userId: 'ann' },
} as const;

const names = (['call', ...Object.keys(expected)] as Scope[]).flatMap((scope) => eras.map((era) => ({ scope, era })));
const kept = keptGateway({
  servers: Object.fromEntries(names.map(({ scope, era }) => [`${scope}-${era}`, recorder(scope, era)])),
});
const sessions = new Map<string, { readonly id: string }>();
beforeAll(async () => {
  for (const [name, draft] of Object.entries(drafts)) sessions.set(name, await kept().gateway.createSession(draft));
});

interface Cell {
  readonly scope: Lasting;
  readonly server: Era;
  readonly clients: readonly Era[];
}
/** Clients of both eras share a modern server; what a handshake server was told when it started differs for them. */
const cells = (Object.keys(expected) as Lasting[]).flatMap((scope): Cell[] => [
  { scope, server: 'modern', clients: eras },
  ...eras.map((client): Cell => ({ scope, server: 'handshake', clients: [client] })),
]);
/** Each scope, each era of servers and clients, but not all of them together where that takes many processes. */
const few: Partial<Record<Scope, string>> = { session: 'modern modern,handshake', user: 'handshake modern' };
const chosen = cells.filter(
  ({ scope, server, clients }) => proof || (few[scope] ?? `${server} ${clients}`) === `${server} ${clients}`,
);

test.each(chosen)(
  'P8: who shares a process at scope $scope, and what a $server server is told, for $clients clients',
  async ({ scope, server, clients: speaking }) => {
    const on = kept();
    const found = await Promise.all(
      [...sessions].map(async ([name, session]) => {
        const clients = await Promise.all(speaking.map((era) => on.connect(session, `${scope}-${server}`, era)));
        const [me, ...again] = await Promise.all([...clients, ...clients].map(whoami));
        if (me === undefined) throw new Error('nobody answered');
        for (const each of again) expect(each).toEqual(me);
        // Whoever shares the process: each call says for itself.
        for (const client of clients) {
          const { params } = JSON.parse(await client.call('echo')) as { params: { _meta: Record<string, object> } };
          expect(params._meta['ambit/context']).toMatchObject({ sessionId: session.id, trustLevel: 'direct' });
        }
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
    const opened = await on.gateway.listSessions();
    for (const { name, session, me } of found) {
      const draft = opened.find(({ id }) => id === session.id);
      const workspaceId = draft?.workspaceId ?? '';
      const path = workspaceId === '' ? '' : join(on.folder, workspaceId);
      const ofPlace = { AMBIT_WORKSPACE_ID: workspaceId, AMBIT_WORKSPACE_PATH: path, AMBIT_TRUST_LEVEL: 'direct' };
      const ofUser = { ...ofPlace, AMBIT_USER_ID: draft?.userId };
      const own = { ...ofUser, AMBIT_SESSION_ID: session.id, AMBIT_AGENT_ID: draft?.agentId ?? '' };
      const alone = scope === 'session' || (scope === 'workspace' && name === 'ann nowhere');
      const { AMBIT_JWKS, AMBIT_CONTEXT_KEY_FILE, ...told } = me.told;
      // Only a process that serves one session may have a key of its own.
      expect(AMBIT_CONTEXT_KEY_FILE !== undefined).toBe(scope === 'session');
      expect(AMBIT_JWKS).toContain('"keys"');
      expect(told).toEqual(alone ? own : { session: own, user: ofUser, workspace: ofPlace, shared: {} }[scope]);
      const works = path !== '' && (scope === 'session' || scope === 'workspace');
      expect(realpathSync(me.cwd)).toMatch(works ? realpathSync(path) : join('data', 'run'));
    }
  },
);

describe.each(eras)('at scope call', (era) => {
  test(`every request to a ${era} server has a process of its own, which ends when it has answered`, async () => {
    const on = kept();
    const session = await on.open({ userId: 'ann', workspaceId: 'one' });
    const [modern, handshake] = [
      await on.connect(session, `call-${era}`, 'modern'),
      await on.connect(session, `call-${era}`, 'handshake'),
    ];
    const seen = [await whoami(modern), ...(await Promise.all([modern, handshake, handshake].map(whoami)))];
    expect(new Set(seen.map(({ pid }) => pid)).size).toBe(4);
    for (const { told, cwd } of seen) {
      expect(told).toMatchObject({ AMBIT_SESSION_ID: session.id, AMBIT_WORKSPACE_ID: 'one' });
      expect(realpathSync(cwd)).toBe(realpathSync(join(on.folder, 'one')));
    }
    await until(
      () => seen.every(({ pid }) => !isAlive(pid)),
      50_000,
      () => 'a process has outlived its call',
    );
  });
});
