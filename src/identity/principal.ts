import type { PresentedToken } from './token.ts';

/** Who is proven to be calling, and by what. */
export type Principal =
  | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
  | { readonly kind: 'local'; readonly userId: string }
  | { readonly kind: 'anonymous'; readonly userId: string };

/** Who is at the other end of the connection; behind a proxy, the proxy. */
export interface Origin {
  readonly loopback: boolean;
  readonly address: string | undefined;
}

/** What came with the request; nothing in it is proven yet. */
export type Credential =
  | ({ readonly kind: 'bearer'; readonly presented: PresentedToken } & Origin)
  | ({ readonly kind: 'none' } & Origin)
  /** Stdio: whoever started us owns both ends of the pipe; the session was opened for them. */
  | { readonly kind: 'pipe'; readonly sessionId: string };

export const localUser = 'local';
export const anonymousUser = 'anonymous';
