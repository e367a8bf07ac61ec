import { batch } from '@preact/signals';
import { send } from '../api/request.ts';
import { hrefOf, replaceAddress } from '../frame/route.ts';
import { keepSignIn, type SignedIn, signedIn, signOut } from './signed-in.ts';

/** Exchanges a code or a credential for the token of this console. */
export async function signIn(body: { readonly code?: string }, credential?: string): Promise<void> {
  const opened = await send('/api/v1/consoles', {
    method: 'POST',
    body: JSON.stringify(body),
    headers: {
      'content-type': 'application/json',
      ...(credential === undefined ? {} : { authorization: `Bearer ${credential}` }),
    },
  });
  const fresh = (await opened.json()) as SignedIn;
  batch(() => {
    keepSignIn(fresh);
    if (location.hash === '') replaceAddress(hrefOf(['overview']));
  });
}

/** Forgets the sign-in at once, and tells the gateway, which may be slow or gone. */
export function leave(reason = ''): void {
  const token = signedIn.peek()?.token;
  signOut(reason);
  if (token === undefined) return;
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  send('/api/v1/consoles/current', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}
