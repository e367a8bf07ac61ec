import { expect } from 'vitest';
import { findProgress } from '../evidence/wire-log.ts';
import { type Check, readPart, requireOffer } from './check.ts';

export const checkListTools: Check = async ({ client, script }) => {
  expect((await client.tools()).map(({ name }) => name)).toEqual(expect.arrayContaining([...script.tools]));
};

export const checkCallTool: Check = async ({ client, script }) => {
  expect(await client.call(script.call.tool, script.call.args)).toContain(script.call.says);
};

/** All of it, in order, and nothing after the answer. */
export const checkProgress: Check = async (visit) => {
  const { client, script } = visit;
  const told: unknown[] = [];
  const { tool, args } = typeof script.progress === 'string' ? script.call : script.progress;
  await client.call(tool, args, { onprogress: (step) => void told.push(step) });
  const calls = client.wire.filter(({ way, message }) => way === 'sent' && message.method === 'tools/call');
  const { before, afterAnswer } = findProgress(client.wire, calls.at(-1)?.message.id);
  requireOffer(before.length > 0, 'none of its tools reports progress');
  expect(before).toEqual(readPart(visit, 'progress').steps);
  expect(afterAnswer).toEqual([]);
  // The callback may miss the last one, see logWire; what it gets must be right.
  expect(before.slice(0, told.length)).toEqual(told);
};

export const checkResources: Check = async (visit) => {
  const { uri, says } = readPart(visit, 'resources');
  expect(await visit.client.resources()).toContain(uri);
  expect(await visit.client.read(uri)).toContain(says);
};

export const checkTemplates: Check = async (visit) => {
  const { template, uri, says } = readPart(visit, 'templates');
  expect(await visit.client.templates()).toContain(template);
  expect(await visit.client.read(uri)).toContain(says);
};

export const checkPrompts: Check = async (visit) => {
  const { name, args, says } = readPart(visit, 'prompts');
  expect(await visit.client.prompts()).toContain(name);
  expect(await visit.client.prompt(name, args)).toBe(says);
};

export const checkCompletion: Check = async (visit) => {
  const { prompt, argument, value, says } = readPart(visit, 'completion');
  expect(await visit.client.complete(prompt, argument, value)).toEqual(says);
};

export const checkPing: Check = async ({ client }) => {
  const refused = await client.ping().then(
    () => undefined,
    (error: Error) => error,
  );
  requireOffer(client.era === 'handshake' || refused === undefined, 'the modern era has no ping');
  expect(refused).toBeUndefined();
};
