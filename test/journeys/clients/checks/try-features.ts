import type { Outcome } from '../print-grid.ts';
import { Absent, type Check, type Visit } from './check.ts';
import { cancel, goodbye } from './check-cancellation-and-end.ts';
import { listChanged, logging, updates } from './check-notifications.ts';
import { callTool, completion, listTools, ping, progress, prompts, resources } from './check-requests.ts';
import { elicitation, roots, sampling } from './check-server-questions.ts';

export const features = {
  'list tools': listTools,
  // Early, because server-filesystem serves nothing but the roots it was told of.
  roots,
  'call a tool': callTool,
  progress,
  cancel,
  logging,
  resources,
  subscribe: updates,
  prompts,
  completion,
  sampling,
  elicitation,
  list_changed: listChanged,
  ping,
  goodbye,
} satisfies Record<string, Check>;

export type Feature = keyof typeof features;
export const featureNames = Object.keys(features) as Feature[];

const maxWaitMs = 60_000;

/** Tries features in their order, `goodbye` last. */
export async function tryFeatures(visit: Visit, names: readonly Feature[]): Promise<Map<Feature, Outcome>> {
  const outcomes = new Map<Feature, Outcome>();
  for (const name of names) outcomes.set(name, await attempt(features[name], visit));
  return outcomes;
}

async function attempt(check: Check, visit: Visit): Promise<Outcome> {
  const error = await runCheck(() => check(visit));
  if (error === undefined) return { mark: '✓' };
  if (error instanceof Absent) return { mark: '–', reason: error.message };
  return { mark: '✗', reason: error instanceof Error ? error.message : String(error) };
}

/** Runs a check for a limited time; returns what it threw, or undefined. */
export async function runCheck(check: () => Promise<void>): Promise<unknown> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`nothing came for ${maxWaitMs} ms`)), maxWaitMs);
  });
  try {
    return await Promise.race([check(), late]);
  } catch (error) {
    return error;
  } finally {
    clearTimeout(timer);
  }
}
