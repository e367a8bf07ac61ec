import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { expect, vi } from 'vitest';
import { hasMark, type SeenRequest } from '../evidence/evidence.ts';
import { findProgress } from '../evidence/wire-log.ts';
import { type Check, type CheckParts, readPart } from './check.ts';

const attempts = 20;
const waiting = { timeout: 30_000, interval: 15 };

/** A call taken back reaches the upstream as such: it is told, and gives no answer; the client hears no more of it. */
export const checkCancellation: Check = async (visit) => {
  const { client, script, isMixed } = visit;
  const { tool, args, pipe } = readPart(visit, 'cancel');
  // As long as the first call would have taken: whatever it still had to say is said by then.
  const next = pipe === undefined ? { tool, args } : script.call;
  const isSilenced = ({ cancelled, answered }: SeenRequest) => cancelled && (isMixed || !answered);
  // A reader of a pipe cannot answer too early.
  for (let attempt = pipe === undefined ? 0 : attempts - 1; attempt < attempts; attempt++) {
    const call = await cancelCall(visit, tool, args);
    // The answer may have been on its way already: then there was nothing to cancel.
    if (!isSilenced(call.seen)) continue;
    const before = findProgress(client.wire, call.id).before.length;
    if (pipe !== undefined) await releasePipe(pipe);
    await client.call(next.tool, next.args);
    // The two may have passed each other on the way; every time they cannot.
    if (!isSilenced(call.seen)) continue;
    expect(findProgress(client.wire, call.id).before).toHaveLength(before);
    return;
  }
  throw new Error('the upstream answered before it could be told, every time');
};

/** Cancels a call once the upstream has seen it, and waits until the upstream knows. */
async function cancelCall({ client, evidence }: CheckParts, tool: string, args: Record<string, unknown> | undefined) {
  const mark = randomUUID();
  const controller = new AbortController();
  const outcome = client.call(tool, args, { mark, signal: controller.signal }).then(
    () => 'answered',
    () => 'rejected',
  );
  const seen: SeenRequest = await evidence.request(hasMark(mark));
  const id = client.wire.findLast(({ way, message }) => way === 'sent' && message.method === 'tools/call')?.message.id;
  controller.abort('no longer wanted');
  await outcome;
  await vi.waitFor(() => expect(seen.cancelled || seen.answered).toBe(true), waiting);
  return { seen, id };
}

/** Writes to a named pipe that a reader waits at. */
async function releasePipe(pipe: string): Promise<void> {
  const writer = await vi.waitFor(() => open(pipe, constants.O_WRONLY | constants.O_NONBLOCK), waiting);
  await writer.write('too late');
  await writer.close();
}

/** After a client's goodbye nothing of it is left, neither here nor at the upstream. */
export const checkGoodbye: Check = async (visit) => {
  const { client, evidence, address } = visit;
  if (address !== undefined)
    await (client.era === 'modern' ? expectStreamEnd(visit) : expectTransportEnd(visit, address));
  else {
    await client.leave();
    await evidence.farewell();
  }
};

/** The modern era has no session to end over HTTP: what ends is the stream the client had open. */
async function expectStreamEnd({ client, evidence }: CheckParts): Promise<void> {
  await client.listen();
  const listening = await evidence.request(({ method }) => method === 'subscriptions/listen');
  expect(listening.cancelled).toBe(false);
  await client.leave();
  await vi.waitFor(() => expect(listening.cancelled).toBe(true), waiting);
}

async function expectTransportEnd(
  { client, evidence }: CheckParts,
  address: NonNullable<CheckParts['address']>,
): Promise<void> {
  const { transportId } = client;
  expect(transportId).toBeDefined();
  await client.leave();
  const response = await fetch(address.url, {
    method: 'POST',
    headers: {
      ...address.headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-session-id': transportId ?? '',
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
  });
  expect(response.status).toBe(404);
  // A process belongs to the session and stays for its next client; a session at the upstream has to be ended.
  if (evidence.pids().length === 0) await evidence.farewell();
}
