import type { TrustLevel } from '../rules/trust-level.ts';
import type { PresentedToken } from './token.ts';

/** What a credential of a user can do at most, whoever else that user is. */
export interface Ceiling {
  readonly trustLevel: TrustLevel;
  /** The only workspaces where it may be direct, when those are not all of them; elsewhere it is sandboxed. */
  readonly directIn?: readonly string[];
  /** Null when it is not limited to some. */
  readonly workspaces: readonly string[] | null;
  /** The permissions it can bring into a session; null when it is not limited to some. */
  readonly scopes: readonly string[] | null;
}

/** Permissions that a token brings with each request, and that are never written into a session. */
export interface TokenPermissions {
  /** Those it brings. */
  readonly brought: readonly string[];
  /** All that tokens of its issuer decide about, with the scope that brings each: nobody else can give these. */
  readonly governed: Readonly<Record<string, string>>;
}

/** A person or program that has proven a name by a credential of its own, and is bound to no session. */
export interface UserPrincipal {
  readonly kind: 'user';
  readonly userId: string;
  readonly via: 'key' | 'jwt';
  /** The key it was proven by: a session opened with it ends when it is revoked. */
  readonly keyId?: string;
  readonly ceiling: Ceiling;
  readonly token?: {
    /** The instant it expires: nothing that stands open is served longer. */
    readonly until: number;
    /** What every use of it needs. */
    readonly scopes: readonly string[];
    readonly permissions: TokenPermissions;
  };
}

/** Who is proven to be calling, and by what. */
export type Principal =
  | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
  | UserPrincipal
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
