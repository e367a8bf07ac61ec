import { pathToFileURL } from 'node:url';
import { proof } from '../../../proof.ts';
import { connectV1 } from './connect-v1.ts';
import { connectV2 } from './connect-v2.ts';
import type { McpClient, Target } from './mcp-client.ts';
import { createSimulatedUser } from './simulated-user.ts';

export type Era = McpClient['era'];

export const clients = {
  v1: { era: 'handshake', title: '`@modelcontextprotocol/sdk`' },
  legacy: { era: 'handshake', title: '`@modelcontextprotocol/client`, `legacy`' },
  auto: { era: 'modern', title: '`@modelcontextprotocol/client`, `auto`' },
  pinned: { era: 'modern', title: '`@modelcontextprotocol/client`, pinned to 2026-07-28' },
} as const satisfies Record<string, { readonly era: Era; readonly title: string }>;

export type ClientName = keyof typeof clients;
export const clientNames = Object.keys(clients) as ClientName[];

/** One client of each era; for the proof all of them. */
export const testedClients: readonly ClientName[] = proof ? clientNames : ['v1', 'pinned'];
export const clientLegend = 'v1: sdk 1.32.2 · others: client 2.4.0 negotiating legacy, auto, 2026-07-28 only';

/** Connects a client that can do everything; `root` is the folder it shows to servers. */
export function connectClient(name: ClientName, target: Target, root: string): Promise<McpClient> {
  const person = createSimulatedUser([{ uri: pathToFileURL(root).href, name: 'files' }]);
  if (name === 'v1') return connectV1(target, person);
  return connectV2(name === 'pinned' ? { pin: '2026-07-28' } : name, target, person);
}
