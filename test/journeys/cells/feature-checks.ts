import type { Check } from '../clients/checks/check.ts';
import { checkCancellation } from '../clients/checks/check-cancellation-and-end.ts';
import { checkListChanged, checkLogging, checkUpdates } from '../clients/checks/check-notifications.ts';
import {
  checkCallTool,
  checkCompletion,
  checkListTools,
  checkProgress,
  checkPrompts,
  checkResources,
  checkTemplates,
} from '../clients/checks/check-requests.ts';
import { checkElicitation, checkRoots, checkSampling } from '../clients/checks/check-server-questions.ts';
import type { Script } from '../clients/checks/upstream-scripts.ts';

export const checks = {
  tools: checkListTools,
  call: checkCallTool,
  progress: checkProgress,
  cancel: checkCancellation,
  logging: checkLogging,
  resources: checkResources,
  templates: checkTemplates,
  subscribe: checkUpdates,
  prompts: checkPrompts,
  completion: checkCompletion,
  elicitation: checkElicitation,
  sampling: checkSampling,
  roots: checkRoots,
  listChanged: checkListChanged,
} satisfies { readonly [K in keyof Script]: Check };

export type Feature = keyof typeof checks;
export const featureNames = Object.keys(checks) as Feature[];
