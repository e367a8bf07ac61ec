import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createSigner } from './signer.ts';
import { startHttpServer } from './start-http-server.ts';

export const signer = await createSigner();

export interface ToolAnswer {
  readonly isError?: boolean;
  readonly text: string;
  readonly code: string | undefined;
}

/** A real server on one SDK and transport, and a real client that speaks one era with it. */
export interface ConnectedServer {
  readonly aud: string;
  call(name: string, args?: Record<string, unknown>, meta?: object, header?: string): Promise<ToolAnswer>;
  readResource(uri: string, meta: object): Promise<string>;
  tools(meta: object): Promise<string[]>;
  close(): Promise<void>;
}

/** The environment in which Ambit starts a stdio server for a sandboxed session. */
const startEnvironment = {
  PATH: process.env.PATH ?? '',
  AMBIT_SESSION_ID: 'from-the-environment',
  AMBIT_TRUST_LEVEL: 'sandboxed',
  AMBIT_WORKSPACE_ID: 'shed',
  AMBIT_JWKS: JSON.stringify(signer.jwks),
};

export type Sdk = 'v1' | 'v2';
export type Era = 'handshake' | 'modern';

export async function connectStdio(sdk: Sdk, era: Era): Promise<ConnectedServer> {
  const script = join(import.meta.dirname, 'fixtures', `stdio-${sdk}.js`);
  const transport = new StdioClientTransport({ command: process.execPath, args: [script], env: startEnvironment });
  return connectServer(era, transport, 'ambit:server:who');
}

export async function connectHttp(sdk: Sdk, era: Era): Promise<ConnectedServer> {
  const server = await startHttpServer(sdk, signer.jwks);
  const header: { value?: string } = {};
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    fetch: (url, init) => {
      const headers = new Headers(init?.headers);
      if (header.value !== undefined && init?.method === 'POST') headers.set('Txn-Token', header.value);
      return fetch(url, { ...init, headers });
    },
  });
  const cell = await connectServer(era, transport, server.url, header);
  return {
    ...cell,
    async close() {
      await cell.close();
      await server.close();
    },
  };
}

async function connectServer(
  era: Era,
  transport: Parameters<Client['connect']>[0],
  aud: string,
  header: { value?: string } = {},
): Promise<ConnectedServer> {
  const mode = era === 'modern' ? 'auto' : 'legacy';
  const client = new Client({ name: 'cell', version: '1' }, { versionNegotiation: { mode } });
  await client.connect(transport);
  const spoken = client.getNegotiatedProtocolVersion();
  if ((spoken === '2026-07-28') !== (era === 'modern')) throw new Error(`spoke ${spoken}, not the ${era} era`);
  return {
    aud,
    async call(name, args, meta, token) {
      if (token !== undefined) header.value = token;
      try {
        const params = { name, ...(args && { arguments: args }), ...(meta && { _meta: meta }) };
        const { isError, content, _meta } = (await client.callTool(params as never)) as never as {
          isError?: boolean;
          content: { text: string }[];
          _meta?: { 'ambit/error'?: { code: string } };
        };
        return { isError: isError === true, text: content[0]?.text ?? '', code: _meta?.['ambit/error']?.code };
      } finally {
        delete header.value;
      }
    },
    async readResource(uri, meta) {
      const { contents } = await client.readResource({ uri, _meta: meta } as never);
      return (contents[0] as { text: string }).text;
    },
    tools: async (meta) => (await client.listTools({ _meta: meta } as never)).tools.map(({ name }) => name),
    close: () => client.close(),
  };
}
