import type { Operator } from '../../gateway/gateway.ts';
import type { effectiveQuery, newObjective, newPolicy, objectiveId, policyName } from './requests.ts';
import type { Asked } from './route.ts';

export async function listPolicies(gateway: Operator) {
  return { policies: await gateway.policies.list() };
}

export async function setPolicy(gateway: Operator, { body }: Asked<{ body: typeof newPolicy }>) {
  return gateway.policies.set(body);
}

export async function removePolicy(gateway: Operator, { body }: Asked<{ body: typeof policyName }>) {
  const { scope, name } = body;
  return { scope, name, removed: await gateway.policies.remove(scope, name) };
}

/** Shows what a user in a workspace gets, and why. */
export async function previewPolicies(gateway: Operator, { query }: Asked<{ query: typeof effectiveQuery }>) {
  const { user: userId, workspace: workspaceId } = query;
  const { teams, policies, objectives, block } = await gateway.policies.preview({ userId, workspaceId });
  const judged = policies.map(({ policy, outcome, by }) => ({ ...policy, outcome, by: by ?? null }));
  return { userId, workspaceId: workspaceId ?? null, teams, policies: judged, objectives, block };
}

export async function listObjectives(gateway: Operator) {
  return { objectives: await gateway.policies.objectives() };
}

export async function addObjective(gateway: Operator, { body }: Asked<{ body: typeof newObjective }>) {
  return gateway.policies.addObjective(body);
}

export async function removeObjective(gateway: Operator, { body: { id } }: Asked<{ body: typeof objectiveId }>) {
  return { id, removed: await gateway.policies.removeObjective(id) };
}
