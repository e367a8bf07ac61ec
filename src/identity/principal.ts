import type { TrustLevel } from '../rules/trust-level.ts';
import type { PresentedToken } from './token.ts';

/** The most that a credential of a user allows, whatever else the user may do. */
export interface AccessCeiling {
  readonly trustLevel: TrustLevel;
  /** The workspaces with direct trust when not all have it; elsewhere it is sandboxed. */
  readonly directIn?: readonly string[];
  /** The workspaces that it may use; null for all. */
  readonly workspaces: readonly string[] | null;
  /** The permissions that it can bring into a session; null for all. */
  readonly scopes: readonly string[] | null;
  /** The only agent that it stands for; any when absent. */
  readonly agentId?: string;
}

/** Permissions that a token brings with each request. They are never stored in a session. */
export interface TokenPermissions {
  /** The permissions that the token brings. */
  readonly brought: readonly string[];
  /** All permissions that tokens of its issuer decide about, with the scope of each. Nothing else can grant these. */
  readonly governed: Readonly<Record<string, string>>;
}

/** A person or program that has proven a name with its own credential, independent of any session. */
export interface UserPrincipal {
  readonly kind: 'user';
  readonly userId: string;
  readonly via: 'key' | 'jwt';
  /** The key of the proof. A session that was opened with it ends when it is revoked. */
  readonly keyId?: string;
  readonly ceiling: AccessCeiling;
  readonly token?: {
    /** The time at which it expires; open streams end then. */
    readonly until: number;
    /** The scopes that every use of it needs. */
    readonly scopes: readonly string[];
    readonly permissions: TokenPermissions;
  };
}

/** The proven caller, by kind of proof. */
export type Principal =
  | { readonly kind: 'session'; readonly sessionId: string; readonly userId: string }
  | UserPrincipal
  | { readonly kind: 'local'; readonly userId: string }
  | { readonly kind: 'anonymous'; readonly userId: string };

/** The other end of the connection; behind a proxy, the proxy. */
export interface ConnectionOrigin {
  readonly loopback: boolean;
  readonly address: string | undefined;
}

/** The credential of a request, not yet verified. */
export type PresentedCredential =
  | ({ readonly kind: 'bearer'; readonly presented: PresentedToken } & ConnectionOrigin)
  | ({ readonly kind: 'none' } & ConnectionOrigin)
  /** Stdio: the process that started us owns both ends of the pipe, and the session was opened for it. */
  | { readonly kind: 'pipe'; readonly sessionId: string };

export const localUser = 'local';
export const anonymousUser = 'anonymous';
