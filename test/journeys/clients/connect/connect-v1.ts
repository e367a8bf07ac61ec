import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { markKey } from '../evidence/evidence.ts';
import {
  adaptClient,
  allCapabilities,
  type Capabilities,
  joinTexts,
  type McpClient,
  openConnection,
  requestTimeoutMs,
  type SdkClient,
  type Target,
} from './mcp-client.ts';
import type { SimulatedUser } from './simulated-user.ts';

/** A client of `@modelcontextprotocol/sdk` 1.x, which knows the handshake era only. */
export async function connectV1(
  target: Target,
  person: SimulatedUser,
  capabilities: Capabilities = allCapabilities,
  streamAfter?: Promise<void>,
): Promise<McpClient> {
  const client = new Client({ name: 'test-v1', version: '1.0.0' }, { capabilities });
  const sdk = client as unknown as SdkClient;
  if (capabilities.sampling) client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => person.think(params));
  if (capabilities.elicitation) client.setRequestHandler(ElicitRequestSchema, ({ params }) => person.fill(params));
  if (capabilities.roots) client.setRequestHandler(ListRootsRequestSchema, () => person.show());
  return adaptClient(sdk, await openConnection(sdk, { Http, Stdio }, target, person, streamAfter), {
    era: 'handshake',
    async call(tool, args, { mark, signal, onprogress } = {}) {
      const params = { name: tool, arguments: args ?? {}, ...(mark !== undefined && { _meta: { [markKey]: mark } }) };
      const result = await client.callTool(params, undefined, {
        timeout: requestTimeoutMs,
        ...(signal && { signal }),
        ...(onprogress && { onprogress }),
      });
      return joinTexts(result.content as unknown[]);
    },
  });
}
