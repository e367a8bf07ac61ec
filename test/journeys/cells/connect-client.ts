import { pathToFileURL } from 'node:url';
import { connectV1 } from '../clients/connect/connect-v1.ts';
import { connectV2 } from '../clients/connect/connect-v2.ts';
import type { McpClient, Target } from '../clients/connect/mcp-client.ts';
import { createSimulatedUser } from '../clients/connect/simulated-user.ts';

export type Era = McpClient['era'];

export const clients = {
  v1: { era: 'handshake', title: '`@modelcontextprotocol/sdk`' },
  legacy: { era: 'handshake', title: '`@modelcontextprotocol/client`, `legacy`' },
  auto: { era: 'modern', title: '`@modelcontextprotocol/client`, `auto`' },
  pinned: { era: 'modern', title: '`@modelcontextprotocol/client`, pinned to 2026-07-28' },
} as const satisfies Record<string, { readonly era: Era; readonly title: string }>;

export type ClientName = keyof typeof clients;
export const clientNames = Object.keys(clients) as ClientName[];

/** Connects a client that can do everything; `root` is the folder it shows to servers. */
export function connectClient(name: ClientName, target: Target, root: string): Promise<McpClient> {
  const person = createSimulatedUser([{ uri: pathToFileURL(root).href, name: 'files' }]);
  if (name === 'v1') return connectV1(target, person);
  return connectV2(name === 'pinned' ? { pin: '2026-07-28' } : name, target, person);
}

/** One server of many, seen as if it were alone: names get the server's name in front, or lose it. */
export function limitToServer(client: McpClient, server: string): McpClient {
  const prefix = `${server}__`;
  const own = (names: readonly string[]) =>
    names.filter((name) => name.startsWith(prefix)).map((name) => name.slice(prefix.length));
  return {
    ...client,
    async tools() {
      const mine = (await client.tools()).filter(({ name }) => name.startsWith(prefix));
      return mine.map((tool) => ({ ...tool, name: tool.name.slice(prefix.length) }));
    },
    call: (tool, args, options) => client.call(prefix + tool, args, options),
    prompts: async () => own(await client.prompts()),
    prompt: (name, args) => client.prompt(prefix + name, args),
    complete: (prompt, argument, value) => client.complete(prefix + prompt, argument, value),
  };
}
