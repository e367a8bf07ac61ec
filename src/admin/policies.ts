import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { Operator } from '../gateway/operator.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { readBody } from './sessions.ts';

const placeShape = { scope: z.string(), enabled: z.boolean().optional(), order: z.int().optional() };

export const policyShape = z.strictObject({
  ...placeShape,
  name: z.string(),
  mode: z.enum(['prepend', 'append']),
  text: z.string(),
  locked: z.boolean().optional(),
});
export const policyNameShape = z.strictObject({ scope: z.string(), name: z.string() });
export const objectiveShape = z.strictObject({ ...placeShape, text: z.string() });
export const objectiveIdShape = z.strictObject({ id: z.string() });

export async function listPolicies(gateway: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { policies: await gateway.policies.list() } };
}

export async function setPolicy(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  return { status: 200, body: await gateway.policies.set(given(readBody(policyShape, body))) };
}

export async function removePolicy(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { scope, name } = readBody(policyNameShape, body);
  return { status: 200, body: { scope, name, removed: await gateway.policies.remove(scope, name) } };
}

/** What a user in a workspace gets, and why. */
export async function previewPolicies(gateway: Operator, { query }: Asked): Promise<AdminAnswer> {
  const userId = query.get('user');
  if (userId === null || userId === '') {
    throw new AmbitError('REQUEST_INVALID', { what: 'Say for which user.', hint: 'Add ?user=NAME.' });
  }
  const workspaceId = query.get('workspace') ?? undefined;
  const { teams, policies, objectives, block } = await gateway.policies.preview({ userId, workspaceId });
  const judged = policies.map(({ policy, outcome, by }) => ({ ...policy, outcome, by: by ?? null }));
  return {
    status: 200,
    body: { userId, workspaceId: workspaceId ?? null, teams, policies: judged, objectives, block },
  };
}

export async function listObjectives(gateway: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { objectives: await gateway.policies.objectives() } };
}

export async function addObjective(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  return { status: 201, body: await gateway.policies.addObjective(given(readBody(objectiveShape, body))) };
}

export async function removeObjective(gateway: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { id } = readBody(objectiveIdShape, body);
  return { status: 200, body: { id, removed: await gateway.policies.removeObjective(id) } };
}

type Given<T> = { [Key in keyof T]: Exclude<T[Key], undefined> };

/** What was not said is not there, rather than there and undefined. */
function given<T extends object>(body: T): Given<T> {
  return Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as Given<T>;
}
