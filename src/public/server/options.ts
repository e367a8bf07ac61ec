import type { ActingSession, Optional } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { Quotas } from '../../sessions/quotas.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ContextOptions } from '../sdk/read-context.ts';

/** The credential of an HTTP request as the SDK passes it on; the server in front of it has verified it. */
export interface AuthInfo {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly expiresAt?: number | undefined;
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** A user and the bounds of calls with this credential; or a session, by the token it was opened with. */
export type CallerPrincipal =
  | {
      readonly userId: string;
      readonly agentId?: string | undefined;
      readonly workspaceId?: string | undefined;
      /** The upper bound; a session that was opened with less keeps less. Default: sandboxed. */
      readonly trustLevel?: TrustLevel | undefined;
      /** An upper bound like `trustLevel`. Default: none. */
      readonly permissions?: readonly string[] | undefined;
    }
  | { readonly sessionToken: string };

/** Finds the caller from the verified credential; a call without a caller (undefined) is refused. */
export type PrincipalOf = (
  auth: AuthInfo | undefined,
) => CallerPrincipal | undefined | Promise<CallerPrincipal | undefined>;

/** Options that are left out come from the environment (`AMBIT_SESSION_…`, `AMBIT_USER_ID`, `AMBIT_AGENT_ID`). */
export interface OwnOptions {
  /** Any store of `ambit-mcp/stores`. The caller who opened it closes it. */
  readonly store?: SessionStore | Promise<SessionStore> | undefined;
  /** A folder for a store of its own, in SQLite. Without it and without `store`, sessions are kept in memory. */
  readonly storeDir?: string | undefined;
  /** A session ends after this long without a call. Default 3600. */
  readonly ttlSeconds?: number | undefined;
  /** A session ends after this long, used or not. Default 86400. */
  readonly maxLifetimeSeconds?: number | undefined;
  /** The number of sessions kept in memory. Default 1000. */
  readonly maxSessions?: number | undefined;
  /** The number of live sessions of one user. Default 200. */
  readonly maxPerUser?: number | undefined;
  /** Default: none. */
  readonly quotas?: Quotas | undefined;
  /** Names session and correlation id in `_meta["ambit/session"]` of results. */
  readonly includeMeta?: boolean | undefined;
  /** Offers the session tools that need no files, and with `governance` also `session_context`, beside the tools of the server. */
  readonly tools?: boolean | undefined;
  /** Policies and objectives that begin the first result of each session. Behind Ambit, its own are used instead. */
  readonly governance?: GivenGovernance | undefined;
  /** The identity of sessions over stdio, where the caller is whoever started the server. */
  readonly local?: LocalSessions | undefined;
  /** The verification of contexts behind Ambit: audience and keys, over HTTP. */
  readonly context?: ContextOptions | undefined;
}

/** Added to the policies and objectives that `ambit policy` and `ambit objective` have written into the same store. */
export interface GivenGovernance {
  readonly policies?: readonly {
    readonly name: string;
    readonly text: string;
    /** Default `org`. */
    readonly scope?: string | undefined;
    /** Default `prepend`. */
    readonly mode?: 'prepend' | 'append' | undefined;
    readonly locked?: boolean | undefined;
  }[];
  readonly objectives?: readonly { readonly text: string; readonly scope?: string | undefined }[];
  readonly teamsOf?: ((userId: string) => readonly string[] | Promise<readonly string[]>) | undefined;
}

export interface LocalSessions extends Optional<Omit<ActingSession, 'id' | 'workspaceId'>> {}

export interface ServerSessionsOptions extends OwnOptions {
  /** Finds the caller over HTTP without Ambit in front. Without this option such calls are refused. */
  readonly principal?: PrincipalOf | undefined;
}
