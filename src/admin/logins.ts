import type { Gateway } from '../gateway/gateway.ts';
import type { loginCallback, loginName, newLogin } from './requests.ts';
import type { Asked } from './route.ts';

export function listLogins(gateway: Gateway) {
  return { logins: gateway.logins.list() };
}

export async function startLogin(gateway: Gateway, { body }: Asked<{ body: typeof newLogin }>) {
  const { port, ...which } = body;
  return gateway.logins.start(which, port);
}

export async function completeLogin(gateway: Gateway, { body }: Asked<{ body: typeof loginCallback }>) {
  const { callback, ...which } = body;
  return gateway.logins.complete(callback, which);
}

export async function removeLogin(gateway: Gateway, { body }: Asked<{ body: typeof loginName }>) {
  return { ...body, removed: await gateway.logins.remove(body) };
}
