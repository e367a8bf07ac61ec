import {
  Client,
  LOG_LEVEL_META_KEY,
  StreamableHTTPClientTransport,
  type SubscriptionFilter,
  type Transport,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { markKey } from '../evidence/evidence.ts';
import { logWire } from '../evidence/wire-log.ts';
import { addStderrToError } from './add-stderr-to-error.ts';
import { allCapabilities } from './connect-v1.ts';
import { adaptClient, joinTexts, type McpClient, requestTimeoutMs, type SdkClient, type Target } from './mcp-client.ts';
import { createStreamNoticingFetch } from './notice-stream.ts';
import { createReceivedNotifications } from './received-notifications.ts';
import type { SimulatedUser } from './simulated-user.ts';

/** A client of `@modelcontextprotocol/client` 2.x, in the era that its negotiation finds. */
export async function connectV2(
  mode: VersionNegotiationMode,
  target: Target,
  person: SimulatedUser,
  capabilities: Partial<typeof allCapabilities> = allCapabilities,
): Promise<McpClient> {
  const heard = createReceivedNotifications();
  const errors: Error[] = [];
  const stream = createStreamNoticingFetch();
  const client = new Client({ name: 'test-v2', version: '1.0.0' }, { capabilities, versionNegotiation: { mode } });
  client.onerror = (error) => void errors.push(error);
  client.fallbackNotificationHandler = async (notice) => heard.add(notice);
  if (capabilities.sampling) client.setRequestHandler('sampling/createMessage', ({ params }) => person.think(params));
  if (capabilities.elicitation) client.setRequestHandler('elicitation/create', ({ params }) => person.fill(params));
  if (capabilities.roots) client.setRequestHandler('roots/list', () => person.show());
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
  const modern = client.getProtocolEra() === 'modern';

  async function listen(filter: SubscriptionFilter): Promise<() => Promise<void>> {
    const subscription = await client.listen(filter);
    return () => subscription.close();
  }

  return adaptClient(client as SdkClient, {
    era: modern ? 'modern' : 'handshake',
    heard,
    person,
    errors,
    wire,
    streamOpened: stream.opened,
    get transportId() {
      return http?.sessionId;
    },
    async call(tool, args, { mark, signal, logLevel, onprogress } = {}) {
      const _meta = {
        ...(mark !== undefined && { [markKey]: mark }),
        ...(logLevel !== undefined && { [LOG_LEVEL_META_KEY]: logLevel }),
      };
      const result = await client.callTool(
        { name: tool, arguments: args ?? {}, _meta },
        { timeout: requestTimeoutMs, ...(signal && { signal }), ...(onprogress && { onprogress }) },
      );
      return joinTexts(result.content);
    },
    async leave() {
      await http?.terminateSession();
      await client.close();
    },
    ...(modern && {
      watch: (uri: string) => listen({ resourceSubscriptions: [uri] }),
      listen: () => listen({ toolsListChanged: true, resourcesListChanged: true }),
    }),
  });
}
