import { expect } from 'vitest';
import type { Notification } from '../connect/received-notifications.ts';
import { type Check, type CheckParts, readPart } from './check.ts';
import type { Logging } from './upstream-scripts.ts';

const attempts = 60;

/** Log messages come when they were wished for, at the level wished for, in order. */
export const checkLogging: Check = async (visit) => {
  const logging = readPart(visit, 'logging');
  const { lines, subscribes } = logging;
  if (!(lines instanceof RegExp)) await checkToolLogs(visit, logging, lines);
  else if (!visit.isMixed && subscribes !== undefined) await checkSubscriptionLogs(visit, subscribes);
  else await checkRandomLogs(visit, logging, lines);
};

async function checkToolLogs(visit: CheckParts, { tool, args, always }: Logging, lines: readonly string[]) {
  const { client, isMixed } = visit;
  const modern = client.era === 'modern';
  const texts = () => logTexts(client).filter((text) => !isMixed || lines.includes(text));
  if (always === undefined && !(isMixed && modern)) {
    const quiet = texts().length;
    if (!modern) await client.setLevel('error');
    await client.call(tool, args);
    expect(texts()).toHaveLength(quiet);
  }
  if (!modern) await client.setLevel('debug');
  const before = texts().length;
  await client.call(tool, args, modern ? { logLevel: 'info' } : {});
  await client.heard.waitFor(() => texts().length >= before + lines.length);
  expect(texts().slice(before)).toEqual(lines);
}

/** Its lines are of random levels, some below the one wished for. */
async function checkRandomLogs({ client }: CheckParts, { tool, args }: Logging, line: RegExp): Promise<void> {
  const count = () => logTexts(client).filter((text) => line.test(text)).length;
  const modern = client.era === 'modern';
  if (!modern) await client.setLevel('debug');
  const before = count();
  for (let attempt = 0; count() === before && attempt < attempts; attempt++)
    await client.call(tool, args, modern ? { logLevel: 'info' } : {});
  expect(count()).toBeGreaterThan(before);
}

async function checkSubscriptionLogs({ client }: CheckParts, base: string): Promise<void> {
  const subscribed = () =>
    logTexts(client)
      .map((text) => /Subscribe Resource request for URI: (\S+)/.exec(text)?.[1])
      .filter((uri) => uri !== undefined);
  await client.setLevel('error');
  const undoFirst = await client.watch(`${base}21`);
  await client.setLevel('debug');
  const undoSecond = await client.watch(`${base}22`);
  await client.heard.waitFor(() => subscribed().includes(`${base}22`));
  expect(subscribed()).toEqual([`${base}22`]);
  await undoFirst();
  await undoSecond();
}

/** Updates come for what was subscribed to, while it was. */
export const checkUpdates: Check = async (visit) => {
  const { client, isMixed } = visit;
  const { uri, change, stop } = readPart(visit, 'subscribe');
  const updated = () =>
    client.heard
      .withMethod('notifications/resources/updated')
      .map(({ params }) => (params as { uri?: unknown }).uri)
      .filter((each) => !isMixed || each === uri);
  const from = isMixed ? updated().length : 0;
  const changeOnce = async (isWatched: boolean) => {
    const count = updated().length;
    await client.call(change.tool, change.args);
    if (isWatched) await client.heard.waitFor(() => updated().length > count);
    if (stop !== undefined) await client.call(stop.tool, stop.args);
  };
  const undo = await client.watch(uri);
  await changeOnce(true);
  await undo();
  // A modern client closes a stream and gets no answer to that: through a bridge an update may still be on its way.
  if (client.era === 'handshake' || !isMixed) await changeOnce(false);
  const again = await client.watch(uri);
  await changeOnce(true);
  await again();
  expect(updated().slice(from)).toEqual([uri, uri]);
};

/** The server says that a list has changed, and the list has. */
export const checkListChanged: Check = async (visit) => {
  const { client } = visit;
  const { tool, args, method, shows } = readPart(visit, 'listChanged');
  const list = async () => JSON.stringify(method.includes('tools') ? await client.tools() : await client.resources());
  const stop = await client.listen();
  const before = await list();
  const heard = client.heard.withMethod(method).length;
  const said = await client.call(tool, args);
  await client.heard.waitFor(() => client.heard.withMethod(method).length > heard);
  const after = await list();
  expect(after).toContain(shows ?? said);
  expect(after).not.toBe(before);
  await stop();
};

function logTexts({ heard }: CheckParts['client']): string[] {
  return heard.withMethod('notifications/message').map(readLogText);
}

function readLogText({ params }: Notification): string {
  const { data } = params as { data?: unknown };
  return typeof data === 'string' ? data : String((data as { message?: unknown }).message);
}
