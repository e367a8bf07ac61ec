import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { expect } from 'vitest';

interface ClientEntry {
  readonly command?: string;
  readonly args?: string[];
  readonly url?: string;
  readonly headers?: Record<string, string>;
}

/** Connects to each server of a client's configuration, as the client would, and lists the tools. */
export async function connectClient(
  configuration: string,
  { cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
): Promise<void> {
  const { mcpServers } = JSON.parse(configuration) as { mcpServers: Record<string, ClientEntry> };
  for (const [name, { command = '', args = [], url, headers = {} }] of Object.entries(mcpServers)) {
    const client = createClient();
    await client.connect(
      url === undefined
        ? new StdioClientTransport({ command, args, cwd, env: env as Record<string, string>, stderr: 'ignore' })
        : new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }),
    );
    const { tools } = await client.listTools();
    expect(tools.length, name).toBeGreaterThan(0);
    await client.close();
  }
}

/** Calls a tool in the session of the token and gives the text of its answer. */
export async function callTool(call: string, url: string, token: string): Promise<string> {
  const client = createClient();
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
  const { content } = await client.callTool(JSON.parse(call) as { name: string });
  await client.close();
  return (content as { text: string }[])[0]?.text ?? '';
}

const createClient = () => new Client({ name: 'page', version: '1' }, { versionNegotiation: { mode: 'auto' } });
