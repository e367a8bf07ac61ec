import { callModern, type JsonClient, openClient, readOutcome } from '../json-mcp-client.ts';
import type { WatchedAmbit } from './start-watched-ambit.ts';

/** A tool call, and the text of its answer or `!CODE`. */
export type CallTool = (server: string, name: string, args?: Record<string, unknown>, id?: unknown) => Promise<string>;

/** The same call in both eras, by name; clients of the handshake era are opened on first need. */
export function callersOfBothEras(ambit: () => WatchedAmbit): [era: 'modern' | 'handshake', call: CallTool][] {
  const clients = new Map<string, Promise<JsonClient>>();
  return [
    [
      'modern',
      async (server, name, args, id) =>
        readOutcome(await callModern(ambit().mcp(server), ambit().token, name, args, { id })),
    ],
    [
      'handshake',
      async (server, name, args, id) => {
        const client = clients.get(server) ?? openClient(ambit().mcp(server), ambit().token);
        clients.set(server, client);
        return readOutcome(await (await client).call(name, args, id));
      },
    ],
  ];
}
