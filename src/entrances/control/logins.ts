import type { Operator } from '../../gateway/gateway.ts';
import type { loginCallback, loginName, newLogin } from './requests.ts';
import type { Asked } from './route.ts';

export async function listLogins(gateway: Operator) {
  return { logins: (await gateway.openAuth()).logins.list() };
}

export async function startLogin(gateway: Operator, { body }: Asked<{ body: typeof newLogin }>) {
  const { port, ...which } = body;
  return (await gateway.openAuth()).logins.start(which, port);
}

export async function completeLogin(gateway: Operator, { body }: Asked<{ body: typeof loginCallback }>) {
  const { callback, ...which } = body;
  return (await gateway.openAuth()).logins.complete(callback, which);
}

export async function removeLogin(gateway: Operator, { body }: Asked<{ body: typeof loginName }>) {
  return { ...body, removed: await (await gateway.openAuth()).logins.remove(body) };
}
