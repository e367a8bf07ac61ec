import { type Client, callModern, openClient, outcome } from '../json-mcp-client.ts';
import type { Patient } from './start-watched-ambit.ts';

/** A tool call, and the text of its answer or `!CODE`. */
export type Calls = (server: string, name: string, args?: Record<string, unknown>, id?: unknown) => Promise<string>;

/** The same call in both eras, by name; clients of the handshake era are opened on first need. */
export function inBothEras(patient: () => Patient): [era: 'modern' | 'handshake', call: Calls][] {
  const clients = new Map<string, Promise<Client>>();
  return [
    [
      'modern',
      async (server, name, args, id) =>
        outcome(await callModern(patient().mcp(server), patient().token, name, args, { id })),
    ],
    [
      'handshake',
      async (server, name, args, id) => {
        const client = clients.get(server) ?? openClient(patient().mcp(server), patient().token);
        clients.set(server, client);
        return outcome(await (await client).call(name, args, id));
      },
    ],
  ];
}
