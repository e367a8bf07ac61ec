import { pathToFileURL } from 'node:url';
import { connectV1 } from './connect-v1.ts';
import { connectV2 } from './connect-v2.ts';
import type { McpClient, Target } from './mcp-client.ts';
import { createPerson } from './person.ts';

export const clientNames = ['v1', 'leg', 'auto', 'pin'] as const;
export type ClientName = (typeof clientNames)[number];

/** `v1` is the SDK's first generation; the others are the second, named by how it negotiates. */
export function connect(name: ClientName, target: Target, root: string): Promise<McpClient> {
  const person = createPerson([{ uri: pathToFileURL(root).href, name: 'files' }]);
  switch (name) {
    case 'v1':
      return connectV1(target, person);
    case 'pin':
      return connectV2({ pin: '2026-07-28' }, target, person);
    case 'auto':
      return connectV2('auto', target, person);
    case 'leg':
      return connectV2('legacy', target, person);
  }
}
