import { Client, InMemoryTransport } from '@modelcontextprotocol/client';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { inputRequired, McpServer as McpServerV2, Server } from '@modelcontextprotocol/server';
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import {
  currentSession,
  type HandlerOptions,
  readContext,
  requireTrust,
  type SessionContext,
  secureServer,
  withSession,
} from '../../../src/public/sdk/index.ts';
import { counts } from '../../proof.ts';
import { seed } from '../../random-seed.ts';
import { call, signer, startEnvironment } from './read-signed.ts';
import { type ClaimOptions, createClaims, createMeta } from './signer.ts';

const options: HandlerOptions = { env: startEnvironment };
const words = (value: unknown) => ({ content: [{ type: 'text' as const, text: JSON.stringify(value) }] });
const tag = z.object({ tag: z.string().optional() });
const limit = z.object({ limit: z.number().default(10) });

// The handlers have the types of their own SDK: that this compiles is part of the proof.
function bareV1() {
  const server = new McpServerV1({ name: 'bare', version: '1' });
  server.registerTool(
    'whoami',
    { inputSchema: tag },
    withSession('whoami', async () => words(currentSession()), options),
  );
  server.registerTool(
    'limited',
    { inputSchema: limit },
    withSession('limited', async () => words(1), options),
  );
  server.registerTool(
    'plain',
    {},
    withSession('plain', async (_extra) => words(currentSession()), options),
  );
  server.registerTool(
    'guarded',
    { inputSchema: tag },
    withSession(
      'guarded',
      async (args) => {
        requireTrust('direct');
        if (args.tag === 'break') throw new Error('the disk is gone');
        return words(args.tag);
      },
      options,
    ),
  );
  server.registerTool('unwrapped', { inputSchema: tag }, async (args, extra) =>
    words([
      await readContext(extra, options),
      await readContext(extra, { ...options, name: 'unwrapped', arguments: args }),
      currentSession(),
    ]),
  );
  return server;
}

function bareV2() {
  const server = new McpServerV2({ name: 'bare', version: '1' });
  server.registerTool(
    'whoami',
    { inputSchema: tag },
    withSession('whoami', async () => words(currentSession()), options),
  );
  server.registerTool(
    'limited',
    { inputSchema: limit },
    withSession('limited', async () => words(1), options),
  );
  server.registerTool(
    'plain',
    {},
    withSession('plain', async (_ctx) => words(currentSession()), options),
  );
  server.registerTool(
    'guarded',
    { inputSchema: tag },
    withSession(
      'guarded',
      async (args) => {
        requireTrust('direct');
        if (args.tag === 'break') throw new Error('the disk is gone');
        return words(args.tag);
      },
      options,
    ),
  );
  server.registerTool('unwrapped', { inputSchema: tag }, async (args, ctx) =>
    words([
      await readContext(ctx, options),
      await readContext(ctx, { ...options, name: 'unwrapped', arguments: args }),
      currentSession(),
    ]),
  );
  return server;
}

type Connectable = { connect(transport: never): Promise<void> };

async function clientOf(server: Connectable) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const client = new Client({ name: 'c', version: '1' }, { capabilities: { elicitation: { form: {} } } });
  client.setRequestHandler('elicitation/create', async () => ({ action: 'accept', content: { sure: true } }));
  await server.connect(far as never);
  await client.connect(near);
  return {
    async call(name: string, args: Record<string, unknown>, asked?: ClaimOptions, token?: string) {
      const claims = createClaims({ name, ...asked });
      const _meta = asked && createMeta(token ?? (await signer.sign(claims)), claims);
      const result = await client.callTool({ name, arguments: args, ...(_meta && { _meta }) });
      const {
        isError,
        content,
        _meta: meta,
      } = result as { isError?: boolean; content: { text: string }[]; _meta?: object };
      return { isError: isError === true, text: content[0]?.text ?? '', meta };
    },
    close: () => client.close(),
  };
}

describe.each([
  ['SDK v1', bareV1],
  ['SDK v2', bareV2],
])('a tool wrapped by itself, %s', (_, build) => {
  test('L3: a wrapped handler knows its session, code outside does not', async () => {
    const client = await clientOf(build());
    const asked = { canonical: '{"tag":"x"}' };
    expect(JSON.parse((await client.call('whoami', { tag: 'x' }, asked)).text)).toMatchObject({ status: 'verified' });
    expect(JSON.parse((await client.call('plain', {}, {})).text)).toMatchObject({ status: 'verified' });
    expect(currentSession()).toMatchObject({ status: 'absent', code: 'NO_CONTEXT' });
    await client.close();
  });

  test('a schema that fills in defaults is refused with the way out', async () => {
    const client = await clientOf(build());
    const answer = await client.call('limited', {}, {});
    expect(answer).toMatchObject({ isError: true, meta: { 'ambit/error': { code: 'CONTEXT_REFUSED' } } });
    expect(answer.text).toMatch(/other arguments.*secureServer\(\)/);
    await client.close();
  });

  test('refusals become results with their code; other failures stay what they are', async () => {
    const client = await clientOf(build());
    expect(await client.call('guarded', {}, { trust: 'sandboxed' })).toMatchObject({
      isError: true,
      meta: { 'ambit/error': { code: 'TRUST_REQUIRED' } },
    });
    const broken = await client.call('guarded', { tag: 'break' }, { canonical: '{"tag":"break"}' });
    expect(broken).toMatchObject({ isError: true, text: 'the disk is gone' });
    expect(broken.meta?.['ambit/error' as never]).toBeUndefined();
    await client.close();
  });

  test('without a wrapper the call has to be named', async () => {
    const client = await clientOf(build());
    const [unnamed, named, current] = JSON.parse((await client.call('unwrapped', {}, {})).text);
    expect(unnamed).toMatchObject({ status: 'absent', code: 'CALL_UNKNOWN' });
    expect(named).toMatchObject({ status: 'verified' });
    expect(current).toMatchObject({ status: 'absent', code: 'NO_CONTEXT' });
    await client.close();
  });
});

describe('a secured server', () => {
  test('has to be secured before anything is registered', () => {
    expect(() => secureServer(bareV1())).toThrow(/too late: tools\/call/);
    expect(() => secureServer(bareV2())).toThrow(/too late: tools\/call/);
  });

  test('onRefused: run hands the tool an absent context', async () => {
    const server = secureServer(new McpServerV2({ name: 's', version: '1' }), { ...options, onRefused: 'run' });
    server.registerTool('whoami', {}, async () => words(currentSession()));
    const client = await clientOf(server);
    const { text } = await client.call('whoami', {}, {}, 'forged');
    expect(JSON.parse(text)).toMatchObject({ status: 'absent', code: 'TOKEN_MALFORMED' });
    await client.close();
  });

  test('the context of a tool that is wrapped twice is read once', async () => {
    const server = secureServer(new McpServerV2({ name: 's', version: '1' }), options);
    // By itself this wrapper would refuse the default.
    server.registerTool(
      'limited',
      { inputSchema: limit },
      withSession('limited', async () => words(currentSession()), options),
    );
    const client = await clientOf(server);
    expect(JSON.parse((await client.call('limited', {}, {})).text)).toMatchObject({ status: 'verified' });
    await client.close();
  });

  test('a handler that the SDK runs again after asking the user is no replay', async () => {
    const server = secureServer(new McpServerV2({ name: 's', version: '1' }), options);
    const seen: SessionContext[] = [];
    server.registerTool('ask', {}, async (ctx) => {
      seen.push(currentSession());
      if (ctx.mcpReq.inputResponses?.['sure'] !== undefined) return words('done');
      const requestedSchema = { type: 'object' as const, properties: { sure: { type: 'boolean' as const } } };
      return inputRequired({
        inputRequests: { sure: inputRequired.elicit({ message: 'Sure?', requestedSchema }) },
      });
    });
    const client = await clientOf(server);
    expect(await client.call('ask', {}, {})).toMatchObject({ isError: false, text: '"done"' });
    expect(seen.map(({ status }) => status)).toEqual(['verified', 'verified']);
    await client.close();
  });

  test('the low-level server is secured too', async () => {
    const server = secureServer(new Server({ name: 'low', version: '1' }, { capabilities: { tools: {} } }), options);
    server.setRequestHandler('tools/call', async () => {
      requireTrust('direct');
      return words(currentSession());
    });
    const client = await clientOf(server);
    expect(JSON.parse((await client.call('any', {}, {})).text)).toMatchObject({ status: 'verified' });
    expect(await client.call('any', {}, { trust: 'sandboxed' })).toMatchObject({
      isError: true,
      meta: { 'ambit/error': { code: 'TRUST_REQUIRED' } },
    });
    await client.close();
  });
});

test('L3: interleaved handlers never see each other’s session', async () => {
  const waiting: (() => void)[] = [];
  // Each step is let go in an order that has nothing to do with who came first.
  const step = () => new Promise<void>((resolve) => void waiting.push(resolve));
  let dice = seed;
  const roll = () => {
    dice = (dice * 48_271) % 2_147_483_647;
    return dice - 2 ** 30;
  };
  const release = () => {
    for (const resolve of waiting.splice(0).sort(roll)) resolve();
  };
  const seen = new Map<string, Set<string | undefined>>();
  let open = 0;
  const handler = withSession(
    'delete_note',
    async (args: { id: string }, _extra: object) => {
      const mine = new Set<string | undefined>();
      seen.set(args.id, mine);
      for (let i = 0; i < 10; i += 1) {
        mine.add(currentSession().sessionId);
        await step();
        mine.add((await readContext()).sessionId);
        await Promise.all([step(), Promise.resolve().then(() => mine.add(currentSession().sessionId))]);
      }
      open -= 1;
    },
    options,
  );
  const total = counts(200, 5_000);
  const calls = Array.from({ length: total }, async (_, i) => {
    const id = `s${i}`;
    const claims = createClaims({ session: id, canonical: `{"id":"${id}"}` });
    const extra = { ...call, signal: new AbortController().signal, requestId: i };
    open += 1;
    await handler({ id }, { ...extra, _meta: createMeta(await signer.sign(claims), claims) });
  });
  const pump = (async () => {
    for (;;) {
      await new Promise(setImmediate);
      release();
      if (open === 0 && seen.size === total) return;
    }
  })();
  await Promise.all([...calls, pump]);
  for (const [id, sessions] of seen) expect([...sessions]).toEqual([id]);
});
