import {
  Client,
  StreamableHTTPClientTransport as Http,
  LOG_LEVEL_META_KEY,
  type SubscriptionFilter,
  type VersionNegotiationMode,
} from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/client/stdio';
import { markKey } from '../evidence/evidence.ts';
import {
  adaptClient,
  allCapabilities,
  joinTexts,
  type McpClient,
  openConnection,
  requestTimeoutMs,
  type SdkClient,
  type Target,
} from './mcp-client.ts';
import type { SimulatedUser } from './simulated-user.ts';

/** A client of `@modelcontextprotocol/client` 2.x, in the era that its negotiation finds. */
export async function connectV2(
  mode: VersionNegotiationMode,
  target: Target,
  person: SimulatedUser,
): Promise<McpClient> {
  const client = new Client(
    { name: 'test-v2', version: '1.0.0' },
    { capabilities: allCapabilities, versionNegotiation: { mode } },
  );
  const sdk = client as unknown as SdkClient;
  client.setRequestHandler('sampling/createMessage', ({ params }) => person.think(params));
  client.setRequestHandler('elicitation/create', ({ params }) => person.fill(params));
  client.setRequestHandler('roots/list', () => person.show());
  const connection = await openConnection(sdk, { Http, Stdio }, target, person);
  const modern = client.getProtocolEra() === 'modern';

  async function listen(filter: SubscriptionFilter): Promise<() => Promise<void>> {
    const subscription = await client.listen(filter);
    return () => subscription.close();
  }

  return adaptClient(sdk, connection, {
    era: modern ? 'modern' : 'handshake',
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
    ...(modern && {
      watch: (uri: string) => listen({ resourceSubscriptions: [uri] }),
      listen: () => listen({ toolsListChanged: true, resourcesListChanged: true }),
    }),
  });
}
