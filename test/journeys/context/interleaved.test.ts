import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts, proof } from '../../proof.ts';
import { callModern, connectHandshake, type HandshakeClient, readToolText } from '../raw-mcp-client.ts';
import { type ContextGateway, type Server, startContextGateway, type TestSession } from './start-context-gateway.ts';

let upstreams: ContextGateway;

/** One way of one session to one server. */
interface Way {
  readonly session: TestSession;
  readonly server: Server;
  call(name: string, args: string): Promise<string>;
}
const ways: Way[] = [];

beforeAll(async () => {
  upstreams = await startContextGateway();
  const ada = await upstreams.open({ userId: 'ada', agentId: 'coder', workspaceId: 'garden', trustLevel: 'direct' });
  const bob = await upstreams.open({ userId: 'bob', workspaceId: 'kitchen', trustLevel: 'direct' });
  const again = await upstreams.open({ userId: 'ada', agentId: 'reviewer', trustLevel: 'direct' });
  const caged = await upstreams.open({
    userId: 'cy',
    agentId: 'coder',
    workspaceId: 'garden',
    trustLevel: 'sandboxed',
  });
  const cagedToo = await upstreams.open({ userId: 'ada', workspaceId: 'kitchen', trustLevel: 'sandboxed' });
  const boxed = hasBwrap() ? [caged, cagedToo] : [];
  // A process for each: the servers of one era only take turns, and the proof has all of them for everybody.
  for (const [index, session] of [ada, bob, again, ...boxed].entries()) {
    const others = (['pipe-old', 'pipe-new'] as const).filter((_, turn) => proof || index % 2 === turn);
    await add(session, 'pipe', ...others);
  }
  for (const session of [ada, bob, caged, cagedToo]) await add(session, 'web', 'web-old', 'web-new');
});

afterAll(() => upstreams?.close());

async function add(session: TestSession, ...servers: Server[]): Promise<void> {
  for (const server of servers) {
    const client: HandshakeClient = await connectHandshake(upstreams.address(server), session.token);
    ways.push({ session, server, call: (name, args) => readToolText(client.call(name, args)) });
    const own = upstreams.address(server);
    ways.push({ session, server, call: (name, args) => readToolText(callModern(own, session.token, name, args)) });
    const all = upstreams.address();
    const publicName = (name: string) => `${server}__${name}`;
    ways.push({
      session,
      server,
      call: (name, args) => readToolText(callModern(all, session.token, publicName(name), args)),
    });
  }
}

test('P5, P8, P12: of many calls of sessions in parallel, each tells its own session, and none another', async () => {
  const total = counts(2 * ways.length, 20_000);
  const atOnce = counts(total, 250);
  const seen = new Set<Way>();
  for (let from = 0; from < total; from += atOnce) {
    await Promise.all(
      Array.from({ length: atOnce }, async (_, i) => {
        const way = ways[(from + i * 5) % ways.length] as Way;
        const { session, server, call } = way;
        const raw = await call('echo', `{"marker":"${from + i}"}`);
        expect(raw).toContain(`"arguments":{"marker":"${from + i}"}`);
        await upstreams.expectContext(raw, server, session);
        seen.add(way);
      }),
    );
  }
  expect(seen.size).toBe(ways.length);
});

test('P5, P8: the environment of each process names the same session, at the same time', async () => {
  const started = ways.filter(({ server }) => server.startsWith('pipe'));
  await Promise.all(
    Array.from({ length: counts(started.length, 1000) }, async (_, i) => {
      const { session, call } = started[i % started.length] as Way;
      const { context: told } = session;
      const environment = JSON.parse(await call('environment', '{}')) as Record<string, string>;
      const ours = Object.fromEntries(Object.entries(environment).filter(([name]) => name.startsWith('AMBIT_')));
      const { AMBIT_JWKS, AMBIT_CONTEXT_KEY_FILE, ...rest } = ours;
      expect(AMBIT_CONTEXT_KEY_FILE).toMatch(/context-key\.json$/);
      expect(rest).toEqual({
        AMBIT_SESSION_ID: told.sessionId,
        AMBIT_USER_ID: told.userId,
        AMBIT_AGENT_ID: told.agentId ?? '',
        AMBIT_WORKSPACE_ID: told.workspaceId ?? '',
        AMBIT_WORKSPACE_PATH: upstreams.pathOf(told.workspaceId) ?? '',
        AMBIT_TRUST_LEVEL: told.trustLevel,
      });
      expect((JSON.parse(AMBIT_JWKS ?? '') as { keys: object[] }).keys).toHaveLength(1);
    }),
  );
});
