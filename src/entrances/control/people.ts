import { AmbitError } from '../../errors.ts';
import type { Operator } from '../../gateway/gateway.ts';
import type { keysQuery, newKey, newUser, rotation, teamsOfUser } from './requests.ts';
import type { Asked } from './route.ts';

export async function listUsers({ people }: Operator) {
  return { organisation: people.organisation() ?? null, users: await people.users.list() };
}

export async function addUser({ people }: Operator, { body }: Asked<{ body: typeof newUser }>) {
  return people.users.add(body.name, body.teams);
}

export async function showUser({ people }: Operator, { parameter }: Asked) {
  const user = await people.users.get(parameter);
  if (user === undefined) throw new AmbitError('USER_NOT_FOUND');
  return user;
}

export async function changeUser({ people }: Operator, { parameter, body }: Asked<{ body: typeof teamsOfUser }>) {
  return people.users.setTeams(parameter, body.teams);
}

export async function removeUser({ people }: Operator, { parameter }: Asked) {
  const removed = await people.users.remove(parameter);
  if (removed === undefined) throw new AmbitError('USER_NOT_FOUND');
  return { name: parameter, removed: true as const, ...removed };
}

export async function listTeams({ people }: Operator) {
  return { teams: await people.teams() };
}

export async function listKeys({ people }: Operator, { query }: Asked<{ query: typeof keysQuery }>) {
  return { keys: await people.keys.list({ userId: query.user }) };
}

export async function createKey({ people }: Operator, { body }: Asked<{ body: typeof newKey }>) {
  const { view, key } = await people.keys.create(body);
  return { ...view, key };
}

export async function showKey({ people }: Operator, { parameter }: Asked) {
  return people.keys.get(parameter);
}

export async function revokeKey({ people }: Operator, { parameter }: Asked) {
  const { view, sessions } = await people.keys.revoke(parameter);
  return { ...view, sessions };
}

export async function rotateKey({ people }: Operator, { parameter, body }: Asked<{ body: typeof rotation }>) {
  const { view, key } = await people.keys.rotate(parameter, body.overlapSeconds);
  return { ...view, key };
}
