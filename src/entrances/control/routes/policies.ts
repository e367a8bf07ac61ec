import { z } from 'zod';
import { AmbitError } from '../../../errors.ts';
import type { Operator } from '../../../gateway/gateway.ts';
import { defineRoute, type RouteRequest } from '../route.ts';

export const scope = z.string().describe('Who it applies to: org, team:T, user:U or workspace:W.');
export const mode = z
  .enum(['prepend', 'append'])
  .describe('Placed before ("prepend") or after ("append") the messages of a server prompt.');

const placement = {
  enabled: z.boolean().exactOptional().describe('A disabled entry is stored but ignored. Default: true.'),
  order: z.int().exactOptional().describe('Position within its scope; lower numbers come first. Default: 0.'),
};

const newPolicy = z.strictObject({
  scope,
  ...placement,
  name: z.string(),
  mode,
  text: z.string(),
  locked: z
    .boolean()
    .exactOptional()
    .describe('A narrower scope cannot replace this policy with one of the same name. Default: false.'),
});

export const policyName = z.strictObject({ scope, name: z.string() });
export const objectiveId = z.strictObject({ id: z.string() });

const userMissing = {
  error: (): never => {
    throw new AmbitError('REQUEST_INVALID', { what: 'The user is missing.', hint: 'Add ?user=NAME.' });
  },
};

const effectiveQuery = z.object({
  user: z.string(userMissing).min(1, userMissing).describe('Name of the user.'),
  workspace: z.string().optional().describe('Name of the workspace.'),
});

/** The policies and objectives that models are given. */
export const policyRoutes = {
  'GET /api/v1/policies': defineRoute({
    role: 'viewer',
    summary: 'Lists all policies',
    returns: 'The policies',
    answer: 'policies',
    handle: async (gateway) => ({ policies: await gateway.policies.list() }),
  }),
  'POST /api/v1/policies': defineRoute({
    role: 'admin',
    summary: 'Sets a policy. It replaces a policy with the same name and scope',
    body: newPolicy,
    returns: 'The policy',
    answer: 'policy',
    handle: (gateway, { body }) => gateway.policies.set(body),
  }),
  'DELETE /api/v1/policies': defineRoute({
    role: 'admin',
    summary: 'Removes a policy',
    body: policyName,
    returns: 'Whether it existed',
    answer: 'removedPolicy',
    async handle(gateway, { body }) {
      const { scope, name } = body;
      return { scope, name, removed: await gateway.policies.remove(scope, name) };
    },
  }),
  'GET /api/v1/policies/effective': defineRoute({
    role: 'viewer',
    summary: 'Shows which policies and objectives a user in a workspace gets, and why',
    query: effectiveQuery,
    returns: 'All considered policies with their outcome, the objectives, and the resulting text',
    answer: 'effectivePolicies',
    handle: previewPolicies,
  }),
  'GET /api/v1/objectives': defineRoute({
    role: 'viewer',
    summary: 'Lists all objectives',
    returns: 'The objectives',
    answer: 'objectives',
    handle: async (gateway) => ({ objectives: await gateway.policies.objectives() }),
  }),
  'POST /api/v1/objectives': defineRoute({
    role: 'admin',
    summary: 'Adds an objective',
    body: z.strictObject({ scope, ...placement, text: z.string() }),
    status: 201,
    returns: 'The objective, with its id',
    answer: 'objective',
    handle: (gateway, { body }) => gateway.policies.addObjective(body),
  }),
  'DELETE /api/v1/objectives': defineRoute({
    role: 'admin',
    summary: 'Removes an objective',
    body: objectiveId,
    returns: 'Whether it existed',
    answer: 'removedObjective',
    handle: async (gateway, { body: { id } }) => ({ id, removed: await gateway.policies.removeObjective(id) }),
  }),
};

async function previewPolicies(gateway: Operator, { query }: RouteRequest<{ query: typeof effectiveQuery }>) {
  const { user: userId, workspace: workspaceId } = query;
  const { teams, policies, objectives, block } = await gateway.policies.preview({ userId, workspaceId });
  const judged = policies.map(({ policy, outcome, by }) => ({ ...policy, outcome, by: by ?? null }));
  return { userId, workspaceId: workspaceId ?? null, teams, policies: judged, objectives, block };
}
