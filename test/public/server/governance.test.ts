import { afterEach, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { createServerSessions, type ServerSessionsOptions } from '../../../src/public/server/index.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { connectHttp, connectPipe, createAuth, serveStateless } from './connect-client.ts';

const open: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const each of open.splice(0).reverse()) await each.close();
});

const governance = {
  policies: [
    { name: 'require-tests', text: 'All code changes must include tests.' },
    { name: 'team', text: 'Ask Bo.', scope: 'team:core', mode: 'append' as const },
  ],
  objectives: [{ text: 'Be done by noon', scope: 'user:ada' }],
  teamsOf: (userId: string) => (userId === 'ada' ? ['core'] : []),
};

function sessionsWith(options: ServerSessionsOptions = {}) {
  const sessions = createServerSessions({ tools: true, ...options, context: { env: {} } });
  open.push(sessions);
  return sessions;
}

interface Callable {
  readonly client: { callTool(params: { name: string; arguments: Record<string, unknown> }): Promise<unknown> };
}

async function textsOf({ client }: Callable, name = 'whoami', args = {}): Promise<string[]> {
  const { content } = (await client.callTool({ name, arguments: args })) as { content: { text: string }[] };
  return content.map(({ text }) => text);
}

test.each(['v1', 'v2'] as const)(
  'G1: a server without Ambit adds the policy block to the first result (SDK %s)',
  async (sdk) => {
    const caller = await connectPipe(sdk, sessionsWith({ governance, local: { userId: 'ada' } }));
    open.push(caller);
    const [block = '', ...rest] = await textsOf(caller);
    expect(block.split('\n')).toEqual([
      headerLine,
      '',
      'Policies:',
      '  - [prepend] require-tests: All code changes must include tests. (inherited)',
      '  - [append] team: Ask Bo. (inherited)',
      '',
      'Objectives:',
      '  - Be done by noon',
      '',
      '═'.repeat(39),
    ]);
    expect(rest).toHaveLength(1);
    expect(await textsOf(caller)).toHaveLength(1);
    expect(await textsOf(caller, 'session_context', { session: 'current' })).toEqual([block]);
  },
);

test('G1: each user gets their own policies once per session, over HTTP and over several servers', async () => {
  const store = openMemoryStore();
  const principal: ServerSessionsOptions['principal'] = (auth) => auth && { userId: String(auth.extra?.['user']) };
  const here = () => serveStateless(sessionsWith({ governance, store, principal }));
  const told: number[] = [];
  for (const user of ['ada', 'bob', 'ada']) {
    const caller = await connectHttp(here(), 'modern', createAuth(user));
    open.push(caller);
    const texts = await textsOf(caller);
    expect(texts.some((text) => text.includes('Be done by noon'))).toBe(user === 'ada' && told.length === 0);
    told.push(texts.filter((text) => text.startsWith(headerLine)).length);
  }
  expect(told).toEqual([1, 1, 0]);
  await store.close();
});

test('without policies there is no block and no session_context tool', async () => {
  const caller = await connectPipe('v2', sessionsWith());
  open.push(caller);
  expect(await textsOf(caller)).toHaveLength(1);
  expect((await caller.client.listTools()).tools.map(({ name }) => name)).not.toContain('session_context');
});
