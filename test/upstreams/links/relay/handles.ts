import { type Message, readMessage } from '../../../../src/protocol/message.ts';
import { noContext } from '../../../../src/upstreams/links/relay/context-attacher.ts';
import { createKnownTasks, createSeals, type Seals } from '../../../../src/upstreams/links/relay/seals.ts';
import type { Binding } from '../../../../src/upstreams/links/relay/towards-upstream.ts';

export const seals: Seals = createSeals(Buffer.alloc(32, 1));
export const mine: Binding = {
  seals,
  tasks: createKnownTasks(),
  sessionId: 'session-a',
  server: 'notes',
  attacher: noContext,
};
export const otherSession: Binding = { ...mine, sessionId: 'session-b' };
export const otherServer: Binding = { ...mine, server: 'search' };

export const relatedTask = 'io.modelcontextprotocol/related-task';

export function read(text: string): Message {
  return readMessage(Buffer.from(text));
}

export function request(method: string, params: string, id = '"client-id"'): Message {
  return read(`{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${params}}`);
}

export function response(result: string, id = '41'): Message {
  return read(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
}

export function parsed<T = Record<string, unknown>>(bytes: Buffer): T {
  return JSON.parse(bytes.toString()) as T;
}
