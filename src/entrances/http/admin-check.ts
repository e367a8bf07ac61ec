import type { IncomingMessage } from 'node:http';
import type { Gateway } from '../../gateway/gateway.ts';
import type { AdminToken } from '../../identity/admin-token.ts';
import { credentialOf } from './credential.ts';

/** Whether a request comes from somebody who may do everything. */
export type AdminCheck = (request: IncomingMessage) => Promise<boolean>;

/** Who carries the admin token, or an access token with the role for it. */
export function createAdminCheck({ jwt }: Gateway, token: AdminToken): AdminCheck {
  return async function isAdmin(request) {
    if (token.isCarriedBy(request.headers.authorization)) return true;
    const credential = credentialOf(request);
    return jwt !== undefined && credential.kind === 'bearer' && jwt.isAdmin(credential.presented);
  };
}
