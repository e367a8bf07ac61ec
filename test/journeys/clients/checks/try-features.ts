import type { Outcome } from '../print-grid.ts';
import { type Check, type CheckParts, MissingFeatureError, requireOffer } from './check.ts';
import { checkCancellation, checkGoodbye } from './check-cancellation-and-end.ts';
import { checkListChanged, checkLogging, checkUpdates } from './check-notifications.ts';
import {
  checkCallTool,
  checkCompletion,
  checkListTools,
  checkPing,
  checkProgress,
  checkPrompts,
  checkResources,
  checkTemplates,
} from './check-requests.ts';
import { checkElicitation, checkRoots, checkSampling } from './check-server-questions.ts';

const whenOffered =
  (offer: (offers: CheckParts['client']['offers']) => unknown, otherwise: string, ...checks: readonly Check[]): Check =>
  async (visit) => {
    requireOffer(offer(visit.client.offers), otherwise);
    for (const check of checks) await check(visit);
  };

const features = {
  'list tools': checkListTools,
  // Early, because server-filesystem serves nothing but the roots it was told of.
  roots: checkRoots,
  'call a tool': checkCallTool,
  progress: checkProgress,
  cancel: checkCancellation,
  logging: whenOffered(({ logging }) => logging, 'it logs nothing', checkLogging),
  resources: whenOffered(({ resources }) => resources, 'it offers no resources', checkResources, checkTemplates),
  subscribe: whenOffered(canSubscribe, 'it has no subscriptions', checkUpdates),
  prompts: whenOffered(({ prompts }) => prompts, 'it offers no prompts', checkPrompts),
  completion: whenOffered(({ completions }) => completions, 'it completes nothing', checkCompletion),
  sampling: checkSampling,
  elicitation: checkElicitation,
  list_changed: checkListChanged,
  ping: checkPing,
  goodbye: checkGoodbye,
} satisfies Record<string, Check>;

export type Feature = keyof typeof features;
export const featureNames = Object.keys(features) as Feature[];

const maxWaitMs = 60_000;

/** Tries features in their order, `goodbye` last. */
export async function tryFeatures(visit: CheckParts, names: readonly Feature[]): Promise<Map<Feature, Outcome>> {
  const outcomes = new Map<Feature, Outcome>();
  for (const name of names) outcomes.set(name, await tryFeature(features[name], visit));
  return outcomes;
}

async function tryFeature(check: Check, visit: CheckParts): Promise<Outcome> {
  const error = await runCheck(() => check(visit));
  if (error === undefined) return { mark: '✓' };
  if (error instanceof MissingFeatureError) return { mark: '–', reason: error.message };
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

/** Whether a server says that it has subscriptions. */
export function canSubscribe({ resources }: CheckParts['client']['offers']): boolean | undefined {
  return (resources as { subscribe?: boolean } | undefined)?.subscribe;
}
