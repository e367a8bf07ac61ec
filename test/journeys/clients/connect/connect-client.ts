import { pathToFileURL } from 'node:url';
import { proof } from '../../../proof.ts';
import { connectV1 } from './connect-v1.ts';
import { connectV2 } from './connect-v2.ts';
import type { McpClient, Target } from './mcp-client.ts';
import { createSimulatedUser } from './simulated-user.ts';

export const clientLegend = 'v1: sdk 1.32.2 · leg, aut, pin: client 2.4.0 negotiating legacy, auto, 2026-07-28 only';
export const clientNames = ['v1', 'leg', 'aut', 'pin'] as const;
export type ClientName = (typeof clientNames)[number];

/** One client of each era; for the proof all of them. */
export const testedClients: readonly ClientName[] = proof ? clientNames : ['v1', 'pin'];

/** Connects a client that can do everything; `root` is the folder it shows to servers. */
export function connectClient(name: ClientName, target: Target, root: string): Promise<McpClient> {
  const person = createSimulatedUser([{ uri: pathToFileURL(root).href, name: 'files' }]);
  switch (name) {
    case 'v1':
      return connectV1(target, person);
    case 'pin':
      return connectV2({ pin: '2026-07-28' }, target, person);
    case 'aut':
      return connectV2('auto', target, person);
    case 'leg':
      return connectV2('legacy', target, person);
  }
}
