import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { defineRoute, type RouteRequest } from '../route.ts';

export const scope = z.string().describe('org, team:T, user:U or workspace:W.');

export const mode = z.enum(['prepend', 'append']).describe('Before or after the prompts of a server.');

const placement = {
  enabled: z.boolean().exactOptional().describe('One that is not is kept and counts for nothing; true unless said.'),
  order: z.int().exactOptional().describe('The lower ones come first in their scope; 0 unless said.'),
};

const newPolicy = z.strictObject({
  scope,
  ...placement,
  name: z.string(),
  mode,
  text: z.string(),
  locked: z.boolean().exactOptional().describe('No nearer scope may have another one of this name; false unless said.'),
});

export const policyName = z.strictObject({ scope, name: z.string() });

const newObjective = z.strictObject({ scope, ...placement, text: z.string() });

export const objectiveId = z.strictObject({ id: z.string() });

const userMissing = {
  error: (): never => {
    throw new AmbitError('REQUEST_INVALID', { what: 'Say for which user.', hint: 'Add ?user=NAME.' });
  },
};

const effectiveQuery = z.object({
  user: z.string(userMissing).min(1, userMissing).describe('For whom.'),
  workspace: z.string().optional().describe('In which workspace.'),
});

/** The policies and objectives that models are given. */
export const policyRoutes = {
  'GET /api/v1/policies': defineRoute({
    summary: 'Lists the policies there are; those declared in the configuration are changed only there',
    returns: 'The policies',
    answer: 'policies',
    handle: listPolicies,
  }),
  'POST /api/v1/policies': defineRoute({
    summary: 'Sets a policy, in place of one of the same name in the same scope',
    body: newPolicy,
    returns: 'The policy',
    answer: 'policy',
    handle: setPolicy,
  }),
  'DELETE /api/v1/policies': defineRoute({
    summary: 'Removes a policy',
    body: policyName,
    returns: 'Whether there was one',
    answer: 'removedPolicy',
    handle: removePolicy,
  }),
  'GET /api/v1/policies/effective': defineRoute({
    summary: 'Shows what a user in a workspace gets, and why: every policy weighed, and the block',
    query: effectiveQuery,
    returns: 'Policies with what became of each, objectives, and the block',
    answer: 'effectivePolicies',
    handle: previewPolicies,
  }),
  'GET /api/v1/objectives': defineRoute({
    summary: 'Lists the objectives there are',
    returns: 'The objectives',
    answer: 'objectives',
    handle: listObjectives,
  }),
  'POST /api/v1/objectives': defineRoute({
    summary: 'Adds an objective',
    body: newObjective,
    status: 201,
    returns: 'The objective, with its id',
    answer: 'objective',
    handle: addObjective,
  }),
  'DELETE /api/v1/objectives': defineRoute({
    summary: 'Removes an objective',
    body: objectiveId,
    returns: 'Whether there was one',
    answer: 'removedObjective',
    handle: removeObjective,
  }),
};

async function listPolicies(gateway: Operator) {
  return { policies: await gateway.policies.list() };
}

async function setPolicy(gateway: Operator, { body }: RouteRequest<{ body: typeof newPolicy }>) {
  return gateway.policies.set(body);
}

async function removePolicy(gateway: Operator, { body }: RouteRequest<{ body: typeof policyName }>) {
  const { scope, name } = body;
  return { scope, name, removed: await gateway.policies.remove(scope, name) };
}

/** Shows the policies that a user gets in a workspace, and why. */
async function previewPolicies(gateway: Operator, { query }: RouteRequest<{ query: typeof effectiveQuery }>) {
  const { user: userId, workspace: workspaceId } = query;
  const { teams, policies, objectives, block } = await gateway.policies.preview({ userId, workspaceId });
  const judged = policies.map(({ policy, outcome, by }) => ({ ...policy, outcome, by: by ?? null }));
  return { userId, workspaceId: workspaceId ?? null, teams, policies: judged, objectives, block };
}

async function listObjectives(gateway: Operator) {
  return { objectives: await gateway.policies.objectives() };
}

async function addObjective(gateway: Operator, { body }: RouteRequest<{ body: typeof newObjective }>) {
  return gateway.policies.addObjective(body);
}

async function removeObjective(gateway: Operator, { body: { id } }: RouteRequest<{ body: typeof objectiveId }>) {
  return { id, removed: await gateway.policies.removeObjective(id) };
}
