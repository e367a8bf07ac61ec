import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createSigner } from './signer.ts';
import { listen } from './start-http-server.ts';

export const signer = await createSigner();

export interface ToolAnswer {
  readonly isError?: boolean;
  readonly text: string;
  readonly code: string | undefined;
}

/** A real server on one SDK and transport, and a real client that speaks one era with it. */
export interface Cell {
  readonly aud: string;
  call(name: string, args?: Record<string, unknown>, meta?: object, header?: string): Promise<ToolAnswer>;
  readResource(uri: string, meta: object): Promise<string>;
  tools(meta: object): Promise<string[]>;
  close(): Promise<void>;
}

/** What Ambit sets when it starts a stdio server for a sandboxed session. */
const spawned = {
  PATH: process.env.PATH ?? '',
  AMBIT_SESSION_ID: 'from-the-environment',
  AMBIT_TRUST_LEVEL: 'sandboxed',
  AMBIT_WORKSPACE_ID: 'shed',
  AMBIT_JWKS: JSON.stringify(signer.jwks),
};

export type Sdk = 'v1' | 'v2';
export type Era = 'handshake' | 'modern';

export async function overStdio(sdk: Sdk, era: Era): Promise<Cell> {
  const script = join(import.meta.dirname, 'fixtures', `stdio-${sdk}.js`);
  const transport = new StdioClientTransport({ command: process.execPath, args: [script], env: spawned });
  return cellOf(era, transport, 'ambit:server:who');
}

export async function overHttp(sdk: Sdk, era: Era): Promise<Cell> {
  const server = await listen(sdk, signer.jwks);
  const header: { value?: string } = {};
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    fetch: (url, init) => {
      const headers = new Headers(init?.headers);
      if (header.value !== undefined && init?.method === 'POST') headers.set('Txn-Token', header.value);
      return fetch(url, { ...init, headers });
    },
  });
  const cell = await cellOf(era, transport, server.url, header);
  return {
    ...cell,
    async close() {
      await cell.close();
      await server.close();
    },
  };
}

async function cellOf(
  era: Era,
  transport: Parameters<Client['connect']>[0],
  aud: string,
  header: { value?: string } = {},
): Promise<Cell> {
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
