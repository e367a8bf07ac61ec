import { expect } from 'vitest';
import type { Notification } from '../connect/received-notifications.ts';
import { type Check, type CheckParts, requireOffer } from './check.ts';

/** Log messages come when they were wished for, at the level wished for, in order. */
export const checkLogging: Check = async (visit) => {
  requireOffer(visit.client.offers.logging, 'it logs nothing');
  const { logging } = visit.script;
  if (logging !== undefined && 'tool' in logging) await checkToolLogs(visit, logging.tool, logging.lines);
  else await checkSubscriptionLogs(visit, logging!.subscribes);
};

async function checkToolLogs({ client }: CheckParts, tool: string, lines: readonly string[]): Promise<void> {
  const modern = client.era === 'modern';
  const texts = () => client.heard.withMethod('notifications/message').map((notice) => readLogText(notice));
  if (!modern) await client.setLevel('error');
  const before = texts();
  await client.call(tool);
  if (!modern) await client.setLevel('debug');
  await client.call(tool, {}, modern ? { logLevel: 'info' } : {});
  await client.heard.waitFor((notice) => readLogText(notice) === lines.at(-1));
  expect(texts().slice(before.length)).toEqual(lines);
}

async function checkSubscriptionLogs({ client }: CheckParts, base: string): Promise<void> {
  const subscribed = () =>
    client.heard
      .withMethod('notifications/message')
      .map((notice) => /Subscribe Resource request for URI: (\S+)/.exec(readLogText(notice))?.[1])
      .filter((uri) => uri !== undefined);
  await client.setLevel('error');
  const undoFirst = await client.watch(`${base}1`);
  await client.setLevel('debug');
  const undoSecond = await client.watch(`${base}2`);
  await client.heard.waitFor((notice) => readLogText(notice).includes(`${base}2`));
  expect(subscribed()).toEqual([`${base}2`]);
  await undoFirst();
  await undoSecond();
}

/** Updates come for what was subscribed to, while it was. */
export const checkUpdates: Check = async ({ client, script }) => {
  requireOffer((client.offers.resources as { subscribe?: boolean } | undefined)?.subscribe, 'it has no subscriptions');
  const { uri, change, stop } = script.watched!;
  const updated = () => client.heard.withMethod('notifications/resources/updated').map(({ params }) => readUri(params));
  expect(updated()).toEqual([]);
  const undo = await client.watch(uri);
  await client.call(change.tool, change.args);
  await client.heard.waitFor(({ method }) => method === 'notifications/resources/updated');
  if (stop !== undefined) await client.call(stop.tool, stop.args);
  await undo();
  await client.call(change.tool, change.args);
  if (stop !== undefined) await client.call(stop.tool, stop.args);
  const again = await client.watch(uri);
  const count = updated().length;
  await client.call(change.tool, change.args);
  await client.heard.waitFor(
    (notice) => client.heard.withMethod('notifications/resources/updated').indexOf(notice) >= count,
  );
  if (stop !== undefined) await client.call(stop.tool, stop.args);
  await again();
  expect(updated()).toEqual([uri, uri]);
};

/** The server says that a list has changed, and the list has. */
export const checkListChanged: Check = async ({ client, script }) => {
  requireOffer(script.changed, 'its lists never change');
  const { tool, args, method } = script.changed!;
  const list = async () => JSON.stringify(method.includes('tools') ? await client.tools() : await client.resources());
  const stop = await client.listen();
  const before = await list();
  const heard = client.heard.withMethod(method).length;
  await client.call(tool, args);
  await client.heard.waitFor((notice) => client.heard.withMethod(method).indexOf(notice) >= heard);
  expect(await list()).not.toBe(before);
  await stop();
};

function readLogText({ method, params }: Notification): string {
  return method === 'notifications/message' ? String((params as { data?: unknown }).data) : '';
}

function readUri(params: unknown): unknown {
  return (params as { uri?: unknown }).uri;
}
