import { expect } from 'vitest';
import type { McpClient } from '../clients/connect/mcp-client.ts';
import type { Evidence } from '../clients/evidence/evidence.ts';
import { findProgress } from '../clients/evidence/wire-log.ts';
import { checkCancellation } from './check-cancellation.ts';
import { checkListChanged, checkLogging, checkSubscriptions } from './check-notifications.ts';
import { checkElicitation, checkRoots, checkSampling } from './check-server-questions.ts';
import type { Script } from './upstream-scripts.ts';

/** One client at one upstream, whatever lies between them. */
export interface CheckParts {
  readonly client: McpClient;
  readonly script: Script;
  readonly evidence: Evidence;
  /** A folder of this visit's own. */
  readonly folder: string;
}

/** The part of a script that a feature is shown by. */
export function readPart<K extends keyof Script>({ script }: CheckParts, name: K): Exclude<Script[K], string> {
  const found = script[name];
  if (typeof found === 'string') throw new Error(found);
  return found as Exclude<Script[K], string>;
}

type Check = (visit: CheckParts) => Promise<void>;

const tools: Check = async ({ client, script }) => {
  expect((await client.tools()).map(({ name }) => name)).toEqual(expect.arrayContaining([...script.tools]));
};

const call: Check = async ({ client, script }) => {
  expect(await client.call(script.call.tool, script.call.args)).toContain(script.call.says);
};

/** All of it, in order, and nothing after the answer. */
const progress: Check = async (visit) => {
  const { client } = visit;
  const { tool, args, steps } = readPart(visit, 'progress');
  const told: unknown[] = [];
  await client.call(tool, args, { onprogress: (step) => void told.push(step) });
  const calls = client.wire.filter(({ way, message }) => way === 'sent' && message.method === 'tools/call');
  const { before, afterAnswer } = findProgress(client.wire, calls.at(-1)?.message.id);
  expect(before).toEqual(steps);
  expect(afterAnswer).toEqual([]);
  // The callback may miss the last one, see logWire; what it gets must be right.
  expect(before.slice(0, told.length)).toEqual(told);
};

const resources: Check = async (visit) => {
  const { uri, says } = readPart(visit, 'resources');
  expect(await visit.client.resources()).toContain(uri);
  expect(await visit.client.read(uri)).toContain(says);
};

const templates: Check = async (visit) => {
  const { template, uri, says } = readPart(visit, 'templates');
  expect(await visit.client.templates()).toContain(template);
  expect(await visit.client.read(uri)).toContain(says);
};

const prompts: Check = async (visit) => {
  const { name, args, says } = readPart(visit, 'prompts');
  expect(await visit.client.prompts()).toContain(name);
  expect(await visit.client.prompt(name, args)).toBe(says);
};

const completion: Check = async (visit) => {
  const { prompt, argument, value, says } = readPart(visit, 'completion');
  expect(await visit.client.complete(prompt, argument, value)).toEqual(says);
};

export const checks = {
  tools,
  call,
  progress,
  cancel: checkCancellation,
  logging: checkLogging,
  resources,
  templates,
  subscribe: checkSubscriptions,
  prompts,
  completion,
  elicitation: checkElicitation,
  sampling: checkSampling,
  roots: checkRoots,
  listChanged: checkListChanged,
} satisfies { readonly [K in keyof Script]: Check };

export type Feature = keyof typeof checks;
export const featureNames = Object.keys(checks) as Feature[];
