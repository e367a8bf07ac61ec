import type { IncomingMessage } from 'node:http';
import type { Gateway } from '../../gateway/gateway.ts';
import type { AdminToken } from '../../identity/admin-token.ts';
import { credentialOf } from './credential.ts';

/** By whom a request is that may do everything, for the journal; undefined when it may not. */
export type AdminCheck = (request: IncomingMessage) => Promise<string | undefined>;

/** Who carries the admin token, or an access token with the role for it. */
export function createAdminCheck({ jwt }: Gateway, token: AdminToken): AdminCheck {
  return async function adminOf(request) {
    if (token.isCarriedBy(request.headers.authorization)) return 'admin-token';
    const credential = credentialOf(request);
    return credential.kind === 'bearer' ? jwt?.adminOf(credential.presented) : undefined;
  };
}
