// The acceptance test of the document "Session-Aware Context Injection for MCP Tools" of the Prompt Control Plane. Its
// parts are the parts of the document, and each of them is asked of the library and of the gateway.

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Directory, type PolicySubject, startGateway, startLibrary, type Texts } from './policy-subjects.ts';

const header = '═══ SESSION CONTEXT (auto-injected) ═══';
const footer = '═'.repeat(39);

const platform = {
  name: 'platform',
  policies: [{ name: 'require-tests', mode: 'prepend', text: 'Every change comes with a test.' }],
  objectives: ['Fewer incidents on the platform'],
} as const;

const kinds = {
  /** Of the team, with own texts. */
  ann: {
    team: 'platform',
    policies: [{ name: 'security-review', mode: 'append', text: 'Ask for a review of code that handles credentials.' }],
    objectives: ['A deployment takes less than five minutes'],
  },
  /** Of no team, with own texts. */
  bo: { policies: [{ name: 'ask-first', mode: 'prepend', text: 'Ask before you delete.' }], objectives: [] },
  /** Without anything. */
  cy: { policies: [], objectives: [] },
} as const satisfies Record<string, Texts & { team?: string }>;
type Kind = keyof typeof kinds;

const blockOf = {
  ann: [
    header,
    '',
    'Policies:',
    '  - [prepend] require-tests: Every change comes with a test. (inherited)',
    '  - [append] security-review: Ask for a review of code that handles credentials. (local)',
    '',
    'Objectives:',
    '  - Fewer incidents on the platform',
    '  - A deployment takes less than five minutes',
    '',
    footer,
  ].join('\n'),
  bo: [header, '', 'Policies:', '  - [prepend] ask-first: Ask before you delete. (local)', '', footer].join('\n'),
  cy: [header, '', 'No policies or objectives configured.', '', footer].join('\n'),
};

function createDirectory(objectiveOfDan = 'The first objective'): Directory {
  const users = (Object.keys(kinds) as Kind[]).flatMap((kind) =>
    Array.from({ length: 20 }, (_, number) => ({ name: `${kind}-${number}`, ...kinds[kind] })),
  );
  const dan = { name: 'dan', policies: [], objectives: [objectiveOfDan] };
  return { teams: [platform], users: [...users, dan, { name: 'eve', ...kinds.cy }] };
}

const subjects = [
  ['library', startLibrary],
  ['gateway', startGateway],
] as const;

const eras = [
  ['handshake', 'legacy'],
  ['modern', 'auto'],
] as const;

async function connect({ url, nameOf }: PolicySubject, mode: 'legacy' | 'auto', authorization?: string) {
  const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  const client = new Client({ name: 'agent', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  return {
    client,
    transport,
    async call(name = 'pcp-feature', args: Record<string, unknown> = { task: 'search' }) {
      const { content, isError = false } = await client.callTool({ name: nameOf(name), arguments: args });
      return { texts: (content as { text: string }[]).map(({ text }) => text), isError };
    },
    async prompt() {
      const { messages } = await client.getPrompt({ name: nameOf('pcp-review'), arguments: { task: 'search' } });
      return messages.map(({ content }) => (content as { text: string }).text);
    },
  };
}

const feature = 'Plan and build: search';
const fix = 'Reproduce and fix: search';
const countBlocks = (texts: readonly string[]) =>
  texts.filter((text) => text.startsWith(header) && text.endsWith(footer)).length;

// The subjects run at the same time; the tests of each of them run one after the other.
describe.concurrent.each(subjects)('%s', (_, start) => {
  let subject: PolicySubject;
  beforeAll(async () => {
    subject = await start(createDirectory());
  });
  afterAll(() => subject.stop());

  const open: Awaited<ReturnType<typeof connect>>[] = [];
  afterEach(async () => {
    for (const { client } of open.splice(0)) await client.close();
  });

  const keys = new Map<string, Promise<string>>();
  const keyOf = (user: string) => {
    const known = keys.get(user) ?? subject.keyOf(user);
    keys.set(user, known);
    return known;
  };

  describe.sequential.each(eras)('%s era', (era, mode) => {
    async function connectWith(authorization?: string) {
      const agent = await connect(subject, mode, authorization);
      open.push(agent);
      return agent;
    }
    const used: Record<Kind, number> = { ann: 0, bo: 0, cy: 0 };
    /** In the modern era, clients of one user share a session, so each client there has a user of its own. */
    const takeUser = (kind: Kind) => `${kind}-${era === 'modern' ? used[kind]++ : 0}`;
    const connectAs = async (user: string) => connectWith(`Bearer ${await keyOf(user)}`);
    const connectNew = (kind: Kind) => connectAs(takeUser(kind));

    describe('Problem', () => {
      test('G6: policies and objectives can be read again at any time, without the id of a user', async () => {
        const agent = await connectNew('ann');
        await agent.call();
        const { content } = await agent.client.callTool({ name: 'session_context', arguments: { session: 'current' } });
        expect(content).toMatchObject([{ type: 'text', text: blockOf.ann }]);
      });

      test('G6: policies still surround prompts', async () => {
        expect(await (await connectNew('ann')).prompt()).toEqual([
          'Policy require-tests: Every change comes with a test.',
          'Review: search',
          'Policy security-review: Ask for a review of code that handles credentials.',
        ]);
      });
    });

    describe('How it works', () => {
      test('G2: 1. the user is the owner of the API key', async () => {
        for (const kind of ['ann', 'bo'] as const) {
          const user = takeUser(kind);
          const agent = await connectAs(user);
          expect((await agent.call()).texts[0]).toBe(blockOf[kind]);
          expect(await subject.readUser(agent.client)).toBe(user);
        }
      });

      test('G1: 2. only a tool call uses up the delivery', async () => {
        const agent = await connectNew('ann');
        await agent.client.listTools();
        await agent.client.listPrompts();
        await agent.prompt();
        expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
      });

      if (era === 'modern') {
        test('G8: 2. sessions are known without a session of the protocol', async () => {
          const agent = await connectNew('ann');
          expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
          expect((await agent.call()).texts).toEqual([feature]);
          expect(agent.transport.sessionId).toBeUndefined();
        });
      }

      test('G1: 3. each tool can be the first', async () => {
        const agent = await connectNew('ann');
        expect((await agent.call('pcp-fix')).texts).toEqual([blockOf.ann, fix]);
        expect((await agent.call('pcp-fix')).texts).toEqual([fix]);
      });

      if (era === 'handshake') {
        test('G7: 4. a session is removed when its client disconnects', async () => {
          const agent = await connectAs('eve');
          expect((await agent.call()).texts).toEqual([blockOf.cy, feature]);
          const id = agent.transport.sessionId as string;
          const { ended } = await subject.watch('eve');
          await agent.transport.terminateSession();
          await ended;
          expect(await readStatus(subject, 'POST', id, await keyOf('eve'))).toBe(404);
        });
      }
    });

    describe('Context format', () => {
      test('G1, G5: policies with mode, name, text and origin, then objectives, between two lines', async () => {
        const { texts, isError } = await (await connectNew('ann')).call();
        expect(isError).toBe(false);
        expect(texts.map((text) => text.split('\n'))).toEqual([blockOf.ann.split('\n'), [feature]]);
      });
    });

    describe('User resolution flow', () => {
      test('G1: one of several first calls at the same time has the block', async () => {
        const agent = await connectNew('ann');
        const results = await Promise.all(Array.from({ length: 5 }, () => agent.call()));
        expect(results.map(({ texts }) => texts.at(-1))).toEqual(Array(5).fill(feature));
        expect(countBlocks(results.flatMap(({ texts }) => texts))).toBe(1);
      });

      test('G1: a failed first call has it too', async () => {
        const agent = await connectNew('ann');
        const { texts, isError } = await agent.call('pcp-fix', {});
        expect(isError).toBe(true);
        expect(texts).toEqual([blockOf.ann, expect.stringContaining('task')]);
        expect((await agent.call('pcp-fix')).texts).toEqual([fix]);
      });

      if (era === 'handshake') {
        test('G2: a session serves only the key that opened it', async () => {
          const agent = await connectNew('ann');
          const id = agent.transport.sessionId as string;
          for (const key of [await keyOf(takeUser('bo')), 'pcp_unknown', undefined]) {
            for (const method of ['POST', 'GET', 'DELETE']) {
              expect([method, key, await readStatus(subject, method, id, key)]).toEqual([method, key, 404]);
            }
          }
          expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
        });
      }
    });

    describe('Edge cases', () => {
      test.each([
        ['no authorization header', undefined],
        ['an unknown key', 'Bearer pcp_unknown'],
        ['another scheme', 'Basic YW5uOmFubg=='],
      ])('G3: with %s, tools and prompts work without policies, and a warning is logged', async (_what, header) => {
        const agent = await connectWith(header);
        expect(await agent.call()).toEqual({ texts: [feature], isError: false });
        expect(await agent.call('pcp-fix')).toEqual({ texts: [fix], isError: false });
        expect(await agent.prompt()).toEqual(['Review: search']);
        // At most one line a minute, so these tests may wait for the same one.
        await subject.warned('no policies for anonymous callers');
      });

      test('G4: without policies and objectives, the block is a short note', async () => {
        const agent = await connectNew('cy');
        expect((await agent.call()).texts).toEqual([blockOf.cy, feature]);
        expect((await agent.call()).texts).toEqual([feature]);
        expect(await agent.prompt()).toEqual(['Review: search']);
      });

      test('G1: a client that connects again gets the block again, as it is by then', async () => {
        const agent = await connectAs('dan');
        const [before = ''] = (await agent.call()).texts;
        const objective = `An objective of the ${era} era`;
        expect(before).toMatch(/^═.*\n\nObjectives:\n {2}- /);
        expect(before).not.toContain(objective);
        await subject.change(createDirectory(objective));
        const again = await connectAs('dan');
        const [block = '', ...rest] = (await again.call()).texts;
        expect(block.split('\n')).toEqual([header, '', 'Objectives:', `  - ${objective}`, '', footer]);
        expect(rest).toEqual([feature]);
        expect((await again.call()).texts).toEqual([feature]);
      });
    });

    describe('Acceptance criteria', () => {
      test('G1: 1. and 2. the first call of a session has the block, later calls do not', async () => {
        const agent = await connectNew('ann');
        const counts: number[] = [];
        for (const tool of ['pcp-feature', 'pcp-fix', 'pcp-feature', 'pcp-fix']) {
          counts.push(countBlocks((await agent.call(tool)).texts));
        }
        expect(counts).toEqual([1, 0, 0, 0]);
      });

      test('G1: 3. sessions are independent', async () => {
        const user = takeUser('ann');
        // Two connections of one user are two sessions only in the handshake era.
        const agents = [
          await connectAs(user),
          await (era === 'handshake' ? connectAs(user) : connectNew('ann')),
          await connectNew('bo'),
        ];
        for (const expected of [1, 0]) {
          for (const agent of agents) expect(countBlocks((await agent.call()).texts)).toBe(expected);
        }
      });

      test('G2, G3: 4. callers with and without a key are served side by side', async () => {
        const [known, unknown] = [await connectNew('ann'), await connectWith()];
        expect((await unknown.call()).texts).toEqual([feature]);
        expect((await known.call()).texts).toEqual([blockOf.ann, feature]);
        expect((await unknown.call()).texts).toEqual([feature]);
        expect((await known.call()).texts).toEqual([feature]);
      });

      test('5. nothing else changes for clients', async () => {
        const agent = await connectNew('ann');
        const { tools } = await agent.client.listTools();
        const [first] = tools.filter(({ name }) => name === subject.nameOf('pcp-feature'));
        expect(first?.inputSchema).toMatchObject({ properties: { task: { type: 'string' } }, required: ['task'] });
        // An error of the protocol has no content that could carry the block.
        await expect(agent.call('pcp-none')).rejects.toThrow();
        expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
      });

      test('G1, G3: 6. the first call, no repetition, and no credential', async () => {
        for (const [agent, expected] of [
          [await connectNew('ann'), [1, 0]],
          [await connectWith(), [0, 0]],
        ] as const) {
          const [first, second] = [await agent.call(), await agent.call()];
          expect([countBlocks(first.texts), countBlocks(second.texts)]).toEqual(expected);
        }
      });
    });
  });
});

describe.concurrent.each(subjects)('%s with short sessions', (_, start) => {
  let subject: PolicySubject;
  beforeAll(async () => {
    subject = await start(createDirectory(), { ttlSeconds: 1 });
  });
  afterAll(() => subject.stop());

  test('G7: a session that nobody ends is swept away, and the next one gets the block', async () => {
    const agent = await connect(subject, 'auto', `Bearer ${await subject.keyOf('ann-0')}`);
    expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
    await (await subject.watch('ann-0')).ended;
    expect((await agent.call()).texts).toEqual([blockOf.ann, feature]);
    await agent.client.close();
  });
});

/** The status of a request to a transport session with a credential that may be another's. */
async function readStatus({ url, nameOf }: PolicySubject, method: string, id: string, key?: string): Promise<number> {
  const params = { name: nameOf('pcp-feature'), arguments: { task: 'search' } };
  const response = await fetch(url, {
    method,
    headers: {
      'content-type': 'application/json',
      accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
      'mcp-session-id': id,
      'mcp-protocol-version': '2025-11-25',
      ...(key !== undefined && { authorization: `Bearer ${key}` }),
    },
    ...(method === 'POST' && { body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params }) }),
  });
  await response.body?.cancel();
  return response.status;
}
