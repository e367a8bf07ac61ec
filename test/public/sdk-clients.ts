import { Client as ClientV2 } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import type { McpTransport } from '../../src/public/create-gateway.ts';

/** As much as these tests need of either SDK. */
export interface TestClient {
  tools(): Promise<string[]>;
  call(name: string, args?: Record<string, unknown>): Promise<string>;
  close(): Promise<void>;
}

const joinTexts = (content: unknown) => (content as { text?: string }[]).map(({ text }) => text).join('');

export async function connectV1(transport: McpTransport): Promise<TestClient> {
  const client = new ClientV1({ name: 'v1', version: '1' });
  await client.connect(transport as unknown as Parameters<typeof client.connect>[0]);
  return {
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}) => joinTexts((await client.callTool({ name, arguments: args })).content),
    close: () => client.close(),
  };
}

export async function connectV2(mode: 'legacy' | 'auto', transport: McpTransport): Promise<TestClient> {
  const client = new ClientV2({ name: 'v2', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport as unknown as Parameters<typeof client.connect>[0]);
  return {
    tools: async () => (await client.listTools()).tools.map(({ name }) => name),
    call: async (name, args = {}) => joinTexts((await client.callTool({ name, arguments: args })).content),
    close: () => client.close(),
  };
}

export const sdkClients = {
  'SDK v1': connectV1,
  'SDK v2, handshake': (transport: McpTransport) => connectV2('legacy', transport),
  'SDK v2, modern': (transport: McpTransport) => connectV2('auto', transport),
} as const;
