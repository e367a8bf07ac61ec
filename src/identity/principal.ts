import type { PresentedToken } from './token.ts';

/** Who is proven to be calling, and by what. */
export type Principal =
  | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
  | { readonly kind: 'local'; readonly userId: string }
  | { readonly kind: 'anonymous'; readonly userId: string };

/** What came with the request; nothing in it is proven yet. */
export type Credential =
  | { readonly kind: 'bearer'; readonly presented: PresentedToken; readonly loopback: boolean }
  | { readonly kind: 'none'; readonly loopback: boolean }
  /** Stdio: whoever started us owns both ends of the pipe; the session was opened for them. */
  | { readonly kind: 'pipe'; readonly sessionId: string };

export const localUser = 'local';
export const anonymousUser = 'anonymous';
