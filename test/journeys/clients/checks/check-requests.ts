import { expect } from 'vitest';
import { findProgress } from '../evidence/wire-log.ts';
import { type Check, requireOffer } from './check.ts';

export const checkListTools: Check = async ({ client, script }) => {
  const names = (await client.tools()).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([...script.tools]));
};

export const checkCallTool: Check = async ({ client, script }) => {
  expect(await client.call(script.call.tool, script.call.args)).toContain(script.call.says);
};

/** All of it, in order, and nothing after the answer. */
export const checkProgress: Check = async ({ client, script }) => {
  const told: unknown[] = [];
  const { tool, args } = script.steps ?? script.call;
  await client.call(tool, args, { onprogress: (step) => void told.push(step) });
  const calls = client.wire.filter(({ way, message }) => way === 'sent' && message.method === 'tools/call');
  const { before, afterAnswer } = findProgress(client.wire, calls.at(-1)?.message.id);
  requireOffer(before.length > 0, 'none of its tools reports progress');
  expect(before).toEqual(script.steps?.progress);
  expect(afterAnswer).toEqual([]);
  // The callback may miss the last one, see logWire; what it gets must be right.
  expect(before.slice(0, told.length)).toEqual(told);
};

export const checkResources: Check = async ({ client, script }) => {
  requireOffer(client.offers.resources, 'it offers no resources');
  const { uri, says, template } = script.resource!;
  expect((await client.resources()).length).toBeGreaterThan(0);
  expect(await client.templates()).toContain(template);
  expect(await client.read(uri)).toContain(says);
};

export const checkPrompts: Check = async ({ client, script }) => {
  requireOffer(client.offers.prompts, 'it offers no prompts');
  const { name, args, says } = script.prompt!;
  expect(await client.prompts()).toContain(name);
  expect(await client.prompt(name, args)).toBe(says);
};

export const checkCompletion: Check = async ({ client, script }) => {
  requireOffer(client.offers.completions, 'it completes nothing');
  const [prompt, argument, value, expected] = script.completion!;
  expect(await client.complete(prompt, argument, value)).toEqual(expected);
};

export const checkPing: Check = async ({ client }) => {
  const refused = await client.ping().then(
    () => undefined,
    (error: Error) => error,
  );
  requireOffer(client.era === 'handshake' || refused === undefined, 'the modern era has no ping');
  expect(refused).toBeUndefined();
};
