import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { Operator } from '../gateway/operator.ts';
import { normalizeTrust } from '../trust/trust-level.ts';
import type { AdminAnswer } from './handle.ts';
import type { Asked } from './routes.ts';
import { readBody } from './sessions.ts';

export const userShape = z.strictObject({ name: z.string(), teams: z.array(z.string()).optional() });
export const teamsShape = z.strictObject({ teams: z.array(z.string()) });
export const keyShape = z.strictObject({
  userId: z.string(),
  trustLevel: z.string().optional(),
  workspaces: z.array(z.string()).optional(),
  scopes: z.array(z.string()).optional(),
  lifeSeconds: z.number().optional(),
});
export const rotateShape = z.strictObject({ overlapSeconds: z.number().optional() });

export async function listUsers({ people }: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { organisation: people.organisation() ?? null, users: await people.users.list() } };
}

export async function addUser({ people }: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { name, teams } = readBody(userShape, body);
  return { status: 200, body: await people.users.add(name, teams) };
}

export async function showUser({ people }: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const user = await people.users.get(parameter);
  if (user === undefined) throw new AmbitError('USER_NOT_FOUND');
  return { status: 200, body: user };
}

export async function changeUser({ people }: Operator, { parameter, body }: Asked): Promise<AdminAnswer> {
  return { status: 200, body: await people.users.setTeams(parameter, readBody(teamsShape, body).teams) };
}

export async function removeUser({ people }: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const removed = await people.users.remove(parameter);
  if (removed === undefined) throw new AmbitError('USER_NOT_FOUND');
  return { status: 200, body: { name: parameter, removed: true, ...removed } };
}

export async function listTeams({ people }: Operator): Promise<AdminAnswer> {
  return { status: 200, body: { teams: await people.teams() } };
}

export async function listKeys({ people }: Operator, { query }: Asked): Promise<AdminAnswer> {
  return { status: 200, body: { keys: await people.keys.list({ userId: query.get('user') ?? undefined }) } };
}

export async function createKey({ people }: Operator, { body }: Asked): Promise<AdminAnswer> {
  const { trustLevel: asked, ...wish } = readBody(keyShape, body);
  const trustLevel = asked === undefined ? undefined : normalizeTrust(asked);
  if (asked !== undefined && trustLevel === undefined) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
  }
  const { view, key } = await people.keys.create({ ...wish, trustLevel });
  return { status: 201, body: { ...view, key } };
}

export async function showKey({ people }: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  return { status: 200, body: await people.keys.get(parameter) };
}

export async function revokeKey({ people }: Operator, { parameter }: Asked): Promise<AdminAnswer> {
  const { view, sessions } = await people.keys.revoke(parameter);
  return { status: 200, body: { ...view, sessions } };
}

export async function rotateKey({ people }: Operator, { parameter, body }: Asked): Promise<AdminAnswer> {
  const { view, key } = await people.keys.rotate(parameter, readBody(rotateShape, body).overlapSeconds);
  return { status: 201, body: { ...view, key } };
}
