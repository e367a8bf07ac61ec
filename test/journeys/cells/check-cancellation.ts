import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { expect, vi } from 'vitest';
import { marked } from '../clients/evidence/evidence.ts';
import { progressOf } from '../clients/evidence/wire-log.ts';
import { part, type Visit } from './feature-checks.ts';

const attempts = 20;
const waiting = { timeout: 30_000, interval: 15 };

/** A call taken back reaches the upstream as such, and the client hears no more of it. */
export async function cancel(visit: Visit): Promise<void> {
  const { client, script } = visit;
  const { tool, args, pipe } = part(visit, 'cancel');
  for (let attempt = 0; attempt < attempts; attempt++) {
    const call = await takeBack(visit, tool, args);
    // The answer may have been on its way already: then there was nothing to cancel.
    if (!call.seen.cancelled) continue;
    const before = progressOf(client.wire, call.id).before.length;
    if (pipe !== undefined) await letGo(pipe);
    const next = pipe === undefined ? { tool, args } : script.call;
    await client.call(next.tool, next.args);
    expect(progressOf(client.wire, call.id).before).toHaveLength(before);
    return;
  }
  throw new Error('the upstream answered before it could be told, every time');
}

async function takeBack({ client, evidence }: Visit, tool: string, args: Record<string, unknown> | undefined) {
  const mark = randomUUID();
  const controller = new AbortController();
  const outcome = client.call(tool, args, { mark, signal: controller.signal }).then(
    () => 'answered',
    () => 'rejected',
  );
  const seen = await evidence.request(marked(mark));
  const id = client.wire.findLast(({ way, message }) => way === 'sent' && message.method === 'tools/call')?.message.id;
  controller.abort('no longer wanted');
  await outcome;
  await vi.waitFor(() => expect(seen.cancelled || seen.answered).toBe(true), waiting);
  return { seen, id };
}

async function letGo(pipe: string): Promise<void> {
  const writer = await vi.waitFor(() => open(pipe, constants.O_WRONLY | constants.O_NONBLOCK), waiting);
  await writer.write('too late');
  await writer.close();
}
