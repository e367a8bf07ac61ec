import { AmbitError } from '../errors.ts';
import type { Gateway } from '../gateway/gateway.ts';
import type { keysQuery, newKey, newUser, rotation, teamsOfUser } from './requests.ts';
import type { Asked } from './route.ts';

export async function listUsers({ people }: Gateway) {
  return { organisation: people.organisation() ?? null, users: await people.users.list() };
}

export async function addUser({ people }: Gateway, { body }: Asked<{ body: typeof newUser }>) {
  return people.users.add(body.name, body.teams);
}

export async function showUser({ people }: Gateway, { parameter }: Asked) {
  const user = await people.users.get(parameter);
  if (user === undefined) throw new AmbitError('USER_NOT_FOUND');
  return user;
}

export async function changeUser({ people }: Gateway, { parameter, body }: Asked<{ body: typeof teamsOfUser }>) {
  return people.users.setTeams(parameter, body.teams);
}

export async function removeUser({ people }: Gateway, { parameter }: Asked) {
  const removed = await people.users.remove(parameter);
  if (removed === undefined) throw new AmbitError('USER_NOT_FOUND');
  return { name: parameter, removed: true as const, ...removed };
}

export async function listTeams({ people }: Gateway) {
  return { teams: await people.teams() };
}

export async function listKeys({ people }: Gateway, { query }: Asked<{ query: typeof keysQuery }>) {
  return { keys: await people.keys.list({ userId: query.user }) };
}

export async function createKey({ people }: Gateway, { body }: Asked<{ body: typeof newKey }>) {
  const { view, key } = await people.keys.create(body);
  return { ...view, key };
}

export async function showKey({ people }: Gateway, { parameter }: Asked) {
  return people.keys.get(parameter);
}

export async function revokeKey({ people }: Gateway, { parameter }: Asked) {
  const { view, sessions } = await people.keys.revoke(parameter);
  return { ...view, sessions };
}

export async function rotateKey({ people }: Gateway, { parameter, body }: Asked<{ body: typeof rotation }>) {
  const { view, key } = await people.keys.rotate(parameter, body.overlapSeconds);
  return { ...view, key };
}
