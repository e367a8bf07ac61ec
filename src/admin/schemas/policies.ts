import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import { texts } from '../../sessions/session-schema.ts';
import { list } from './parts.ts';

const scope = z.string().describe('org, team:T, user:U or workspace:W.');
const mode = z.enum(['prepend', 'append']).describe('Before or after the prompts of a server.');
const place = {
  enabled: z.boolean().exactOptional().describe('One that is not is kept and counts for nothing; true unless said.'),
  order: z.int().exactOptional().describe('The lower ones come first in their scope; 0 unless said.'),
};

export const newPolicy = z.strictObject({
  scope,
  ...place,
  name: z.string(),
  mode,
  text: z.string(),
  locked: z.boolean().exactOptional().describe('No nearer scope may have another one of this name; false unless said.'),
});
export const policyName = z.strictObject({ scope, name: z.string() });
export const newObjective = z.strictObject({ scope, ...place, text: z.string() });
export const objectiveId = z.strictObject({ id: z.string() });

const saysNoUser = {
  error: (): never => {
    throw new AmbitError('REQUEST_INVALID', { what: 'Say for which user.', hint: 'Add ?user=NAME.' });
  },
};
export const effectiveQuery = z.object({
  user: z.string(saysNoUser).min(1, saysNoUser).describe('For whom.'),
  workspace: z.string().optional().describe('In which workspace.'),
});

const held = {
  scope,
  text: z.string(),
  enabled: z.boolean(),
  order: z.int(),
  declared: z.boolean().describe('Written in the configuration, and changed only there.'),
};
export const policy = z.object({ ...held, name: z.string(), mode, locked: z.boolean() }).meta({ id: 'Policy' });
export const objective = z.object({ ...held, id: z.string() }).meta({ id: 'Objective' });
export const policies = z.object({ policies: list(policy) });
export const objectives = z.object({ objectives: list(objective) });
export const removedPolicy = policyName.extend({ removed: z.boolean().describe('False when there was none.') });
export const removedObjective = objectiveId.extend({ removed: z.boolean().describe('False when there was none.') });

export const effectivePolicies = z.object({
  userId: z.string(),
  workspaceId: z.string().nullable(),
  teams: texts,
  policies: list(
    policy.and(
      z.object({
        outcome: z.enum(['given', 'disabled', 'replaced', 'locked out']),
        by: z.string().nullable().describe('The scope of the one that stands instead.'),
      }),
    ),
  ).describe('Every policy that was weighed.'),
  objectives: list(objective),
  block: z.string().describe('What the model is given.'),
});
