import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { markKey } from '../evidence/evidence.ts';
import { logWire } from '../evidence/wire-log.ts';
import { addStderrToError } from './add-stderr-to-error.ts';
import { adaptClient, joinTexts, type McpClient, requestTimeoutMs, type SdkClient, type Target } from './mcp-client.ts';
import { createStreamNoticingFetch } from './notice-stream.ts';
import { createReceivedNotifications } from './received-notifications.ts';
import type { SimulatedUser } from './simulated-user.ts';

export const allCapabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };

/** A client of `@modelcontextprotocol/sdk` 1.x, which knows the handshake era only. */
export async function connectV1(
  target: Target,
  person: SimulatedUser,
  capabilities: Partial<typeof allCapabilities> = allCapabilities,
  streamAfter?: Promise<void>,
): Promise<McpClient> {
  const heard = createReceivedNotifications();
  const errors: Error[] = [];
  const stream = createStreamNoticingFetch(streamAfter);
  const client = new Client({ name: 'test-v1', version: '1.0.0' }, { capabilities });
  client.onerror = (error) => void errors.push(error);
  client.fallbackNotificationHandler = async (notice) => heard.add(notice);
  if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => person.think(params));
  if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, ({ params }) => person.fill(params));
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, () => person.show());
  const http =
    target.kind === 'http'
      ? new StreamableHTTPClientTransport(new URL(target.url), {
          fetch: stream.fetch,
          ...(target.token !== undefined && { requestInit: { headers: { authorization: `Bearer ${target.token}` } } }),
        })
      : undefined;
  const stdio =
    target.kind === 'stdio'
      ? new StdioClientTransport({ command: process.execPath, args: [...target.args], stderr: 'pipe' })
      : undefined;
  const transport = (http ?? stdio) as Transport;
  await addStderrToError(stdio, client.connect(transport, { timeout: requestTimeoutMs }));
  const wire = logWire(transport);
  return adaptClient(client as SdkClient, {
    era: 'handshake',
    heard,
    person,
    errors,
    wire,
    streamOpened: stream.opened,
    get transportId() {
      return http?.sessionId;
    },
    async call(tool, args, { mark, signal, onprogress } = {}) {
      const params = { name: tool, arguments: args ?? {}, ...(mark !== undefined && { _meta: { [markKey]: mark } }) };
      const result = await client.callTool(params, undefined, {
        timeout: requestTimeoutMs,
        ...(signal && { signal }),
        ...(onprogress && { onprogress }),
      });
      return joinTexts(result.content as unknown[]);
    },
    async leave() {
      await http?.terminateSession();
      await client.close();
    },
  });
}
