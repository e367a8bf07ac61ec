import type { Operator } from '../../gateway/gateway.ts';
import type { credentialName, newCredential } from './requests.ts';
import type { Asked } from './route.ts';

export async function listCredentials(gateway: Operator) {
  return { credentials: (await gateway.openAuth()).credentials.list() };
}

export async function setCredential(gateway: Operator, { body }: Asked<{ body: typeof newCredential }>) {
  const { value, ...which } = body;
  await (await gateway.openAuth()).credentials.set(which, value);
  return { ...which, set: true as const };
}

export async function removeCredential(gateway: Operator, { body }: Asked<{ body: typeof credentialName }>) {
  return { ...body, removed: await (await gateway.openAuth()).credentials.remove(body) };
}
