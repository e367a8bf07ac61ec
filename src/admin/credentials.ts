import type { Gateway } from '../gateway/gateway.ts';
import type { credentialName, newCredential } from './requests.ts';
import type { Asked } from './route.ts';

export function listCredentials(gateway: Gateway) {
  return { credentials: gateway.credentials.list() };
}

export async function setCredential(gateway: Gateway, { body }: Asked<{ body: typeof newCredential }>) {
  const { value, ...which } = body;
  await gateway.credentials.set(which, value);
  return { ...which, set: true as const };
}

export async function removeCredential(gateway: Gateway, { body }: Asked<{ body: typeof credentialName }>) {
  return { ...body, removed: await gateway.credentials.remove(body) };
}
