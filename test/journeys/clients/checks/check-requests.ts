import { expect } from 'vitest';
import { progressOf } from '../evidence/wire-log.ts';
import { type Check, offered } from './check.ts';

export const listTools: Check = async ({ client, script }) => {
  const names = (await client.tools()).map(({ name }) => name);
  expect(names).toEqual(expect.arrayContaining([...script.tools]));
};

export const callTool: Check = async ({ client, script }) => {
  expect(await client.call(script.call.tool, script.call.args)).toContain(script.call.says);
};

/** All of it, in order, and nothing after the answer. */
export const progress: Check = async ({ client, script }) => {
  const told: unknown[] = [];
  const { tool, args } = script.steps ?? script.call;
  await client.call(tool, args, { onprogress: (step) => void told.push(step) });
  const calls = client.wire.filter(({ way, message }) => way === 'sent' && message.method === 'tools/call');
  const { before, afterAnswer } = progressOf(client.wire, calls.at(-1)?.message.id);
  offered(before.length > 0, 'none of its tools reports progress');
  expect(before).toEqual(script.steps?.progress);
  expect(afterAnswer).toEqual([]);
  // The callback may miss the last one, see logWire; what it gets must be right.
  expect(before.slice(0, told.length)).toEqual(told);
};

export const resources: Check = async ({ client, script }) => {
  offered(client.offers.resources, 'it offers no resources');
  const { uri, says, template } = script.resource!;
  expect((await client.resources()).length).toBeGreaterThan(0);
  expect(await client.templates()).toContain(template);
  expect(await client.read(uri)).toContain(says);
};

export const prompts: Check = async ({ client, script }) => {
  offered(client.offers.prompts, 'it offers no prompts');
  const { name, args, says } = script.prompt!;
  expect(await client.prompts()).toContain(name);
  expect(await client.prompt(name, args)).toBe(says);
};

export const completion: Check = async ({ client, script }) => {
  offered(client.offers.completions, 'it completes nothing');
  const [prompt, argument, value, expected] = script.completion!;
  expect(await client.complete(prompt, argument, value)).toEqual(expected);
};

export const ping: Check = async ({ client }) => {
  const refused = await client.ping().then(
    () => undefined,
    (error: Error) => error,
  );
  offered(client.era === 'handshake' || refused === undefined, 'the modern era has no ping');
  expect(refused).toBeUndefined();
};
