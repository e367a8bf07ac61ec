import { setTimeout as delay } from 'node:timers/promises';
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js';
import { McpServer as McpServerV2 } from '@modelcontextprotocol/server';
import { z } from 'zod';
import {
  type CallSource,
  currentSession,
  type JsonValue,
  readContext,
  requirePermission,
  requireTrust,
  withSession,
} from '../../../src/public/sdk/index.ts';
import { type OwnOptions, type ServerSessions, withSessions } from '../../../src/public/server/index.ts';

export type Sdk = 'v1' | 'v2';

const asText = (value: unknown) => ({
  content: [{ type: 'text' as const, text: JSON.stringify(value) ?? 'null' }],
});

/** Reads the session deep inside a server, after a wait. */
async function deepInside(pause: number): Promise<ReturnType<typeof currentSession>> {
  await delay(pause);
  await Promise.resolve();
  return currentSession();
}

/** Gates that tests open: a call waits there until they do. */
export interface Gate {
  readonly arrived: Promise<void>;
  open(): void;
}

const gates = new Map<string, { arrive(): void; opened: Promise<void> }>();

export function createGate(name: string): Gate {
  const arrival = createDeferred();
  const opening = createDeferred();
  gates.set(name, { arrive: arrival.resolve, opened: opening.promise });
  return { arrived: arrival.promise, open: opening.resolve };
}

function createDeferred() {
  let resolve: () => void = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

/** The same tools on either SDK. */
export function buildServer(sdk: Sdk, given?: ServerSessions | OwnOptions): McpServerV2 {
  const McpServer = (sdk === 'v1' ? McpServerV1 : McpServerV2) as typeof McpServerV2;
  const server = withSessions(new McpServer({ name: 'kept', version: '1' }), given);
  server.registerTool('whoami', { inputSchema: z.object({ pause: z.number().default(0) }) }, async ({ pause }) => {
    const before = currentSession();
    const inside = await deepInside(pause);
    return asText({ ...inside, same: before === inside });
  });
  server.registerTool(
    'add',
    { inputSchema: z.object({ item: z.string(), pause: z.number().default(0) }) },
    async ({ item, pause }) => {
      await delay(pause);
      const { value } = await currentSession().state.update('items', (items) => [
        ...((items as JsonValue[] | undefined) ?? []),
        item,
      ]);
      return asText(value);
    },
  );
  server.registerTool('items', {}, async () => asText((await currentSession().state.get('items'))?.value ?? []));
  server.registerTool(
    'state',
    { inputSchema: z.object({ method: z.enum(['get', 'set', 'delete', 'list']), given: z.array(z.any()) }) },
    async ({ method, given }) => {
      const { state } = currentSession();
      return asText(await (state[method] as (...args: unknown[]) => Promise<unknown>)(...given));
    },
  );
  server.registerTool('wait', { inputSchema: z.object({ at: z.string() }) }, async ({ at }) => {
    gates.get(at)?.arrive();
    await gates.get(at)?.opened;
    return asText(await currentSession().state.set('waited', at));
  });
  server.registerTool(
    'wrapped',
    {},
    withSession('wrapped', async (extra: CallSource) => {
      const session = currentSession();
      const again = await readContext(extra);
      return asText({
        status: session.status,
        same: session === again,
        kept: await session.state.set('wrapped', 1),
      });
    }) as never,
  );
  server.registerTool('delete_note', {}, async () => {
    requireTrust('direct');
    requirePermission('notes:write');
    return asText('deleted');
  });
  server.registerResource('who', 'who://me', {}, async (uri) => ({
    contents: [{ uri: uri.href, text: JSON.stringify(currentSession()) }],
  }));
  return server;
}
