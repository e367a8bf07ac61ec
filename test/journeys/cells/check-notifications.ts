import { expect } from 'vitest';
import type { Notification } from '../clients/connect/received-notifications.ts';
import { type CheckParts, readPart } from './feature-checks.ts';

const attempts = 60;

/** Log messages come when they were wished for, at the level wished for, in order. */
export async function checkLogging(visit: CheckParts): Promise<void> {
  const { client } = visit;
  const { tool, args, lines, always } = readPart(visit, 'logging');
  const fits = (text: string) => (lines instanceof RegExp ? lines.test(text) : lines.includes(text));
  const texts = () => client.heard.withMethod('notifications/message').map(readLogText).filter(fits);
  const modern = client.era === 'modern';
  if (!modern && always === undefined && !(lines instanceof RegExp)) {
    const quiet = texts().length;
    await client.setLevel('error');
    await client.call(tool, args);
    expect(texts()).toHaveLength(quiet);
  }
  if (!modern) await client.setLevel('debug');
  const before = texts().length;
  const wish = modern ? ({ logLevel: 'info' } as const) : {};
  if (lines instanceof RegExp) {
    // Its lines are of random levels, some below the one wished for.
    for (let attempt = 0; texts().length === before && attempt < attempts; attempt++)
      await client.call(tool, args, wish);
    expect(texts().length).toBeGreaterThan(before);
    return;
  }
  await client.call(tool, args, wish);
  await client.heard.waitFor(() => texts().length >= before + lines.length);
  expect(texts().slice(before)).toEqual(lines);
}

/** Updates come for what was subscribed to, while it was. */
export async function checkSubscriptions(visit: CheckParts): Promise<void> {
  const { client } = visit;
  const { uri, change, stop } = readPart(visit, 'subscribe');
  const updated = () =>
    client.heard
      .withMethod('notifications/resources/updated')
      .map(readUri)
      .filter((each) => each === uri);
  const from = updated().length;
  const changed = async () => {
    const count = updated().length;
    await client.call(change.tool, change.args);
    await client.heard.waitFor(() => updated().length > count);
    if (stop !== undefined) await client.call(stop.tool, stop.args);
  };
  const undo = await client.watch(uri);
  await changed();
  await undo();
  // A modern client closes a stream and gets no answer to that: an update may still be on its way.
  if (client.era === 'handshake') {
    await client.call(change.tool, change.args);
    if (stop !== undefined) await client.call(stop.tool, stop.args);
  }
  const again = await client.watch(uri);
  await changed();
  await again();
  expect(updated().length - from).toBe(2);
}

/** The server says that a list has changed, and the list has. */
export async function checkListChanged(visit: CheckParts): Promise<void> {
  const { client } = visit;
  const { tool, args, method, shows } = readPart(visit, 'listChanged');
  const list = async () => JSON.stringify(method.includes('tools') ? await client.tools() : await client.resources());
  const stop = await client.listen();
  await list();
  const heard = client.heard.withMethod(method).length;
  const said = await client.call(tool, args);
  await client.heard.waitFor(() => client.heard.withMethod(method).length > heard);
  expect(await list()).toContain(shows ?? said);
  await stop();
}

function readLogText({ params }: Notification): string {
  const { data } = params as { data?: unknown };
  return typeof data === 'string' ? data : String((data as { message?: unknown }).message);
}

function readUri({ params }: Notification): unknown {
  return (params as { uri?: unknown }).uri;
}
