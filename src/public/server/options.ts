import type { Log } from '../../observability/log/log.ts';
import type { QuotaScope } from '../../observability/metrics/metrics.ts';
import type { ActingSession, Optional } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { Quotas } from '../../sessions/quotas.ts';
import type { SessionEndReason } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ContextOptions } from '../sdk/read-context.ts';
import type { DeclaredWorkspaces } from './declared-workspaces.ts';
import type { GivenGovernance } from './governance.ts';
import type { FileOptions } from './server-files.ts';

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
      /** The workspace that sessions of this credential are in. */
      readonly workspaceId?: string | undefined;
      /** The workspaces that it may use, by their slugs. Default: all. */
      readonly workspaces?: readonly string[] | undefined;
      /** The upper bound; a session that was opened with less keeps less. Default: sandboxed. */
      readonly trustLevel?: TrustLevel | undefined;
      /** An upper bound like `trustLevel`. Default: none. */
      readonly permissions?: readonly string[] | undefined;
    }
  | { readonly sessionToken: string };

type MaybePromise<T> = T | Promise<T>;

/** Finds the caller from the verified credential; a call without a caller (undefined) is refused. */
export type PrincipalOf = (auth: AuthInfo | undefined) => MaybePromise<CallerPrincipal | undefined>;

/** Finds the caller from an API key: the token of "Authorization: Bearer". The answer is used for ten seconds. */
export type IdentifyKey = (key: string) => MaybePromise<CallerPrincipal | undefined>;

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
  /** Offers the session tools that need no files beside the tools of the server. */
  readonly tools?: boolean | undefined;
  /** Offers the file tools, which work in the workspace of the session. Needs `workspaces` or `local.workspace`. */
  readonly files?: boolean | FileOptions | undefined;
  /** The workspaces that sessions can work in: a list, a root such as `~/src/*`, or a function. */
  readonly workspaces?: DeclaredWorkspaces | undefined;
  /** The keys of `_meta` under which clients announce a workspace. Default `['ambit']`. */
  readonly announceKeys?: readonly string[] | undefined;
  /** Policies and objectives that begin the first result of each session. Behind Ambit, its own are used instead. */
  readonly governance?: GivenGovernance | undefined;
  /** The identity of sessions over stdio, where the caller is whoever started the server. */
  readonly local?: LocalSessions | undefined;
  /** The prefix of environment variables. Default `AMBIT`. */
  readonly envPrefix?: string | undefined;
  /** The log. Ids and users are shortened, secrets removed. By default lines go to stderr. */
  readonly log?: Log | undefined;
  readonly metrics?: SessionMetrics | undefined;
  /** The verification of contexts behind Ambit: audience and keys, over HTTP. */
  readonly context?: ContextOptions | undefined;
}

/** Functions that are called with measurements. No value is an id or a user. */
export interface SessionMetrics {
  sessionOpened?(trustLevel: TrustLevel): void;
  /** `seconds` is the lifetime of the session, `calls` its tool calls in this process. */
  sessionEnded?(reason: SessionEndReason, seconds: number, calls: number): void;
  /** A finished request. `outcome` is `ok`, `error` for an error of the tool, or an error code. */
  called?(method: string, outcome: string, seconds: number): void;
  cacheLookedUp?(found: boolean): void;
  quotaRefused?(scope: QuotaScope): void;
}

export interface LocalSessions extends Optional<Omit<ActingSession, 'id' | 'workspaceId'>> {
  /** The id of the session, as in `AMBIT_SESSION_ID`. */
  readonly id?: string | undefined;
  /** The workspace of the session: a slug of `workspaces`, or an absolute path, as in `AMBIT_WORKSPACE_PATH`. */
  readonly workspace?: string | undefined;
}

export interface ServerSessionsOptions extends OwnOptions {
  /** Finds the caller over HTTP without Ambit in front. Without this option and `identify` such calls are refused. */
  readonly principal?: PrincipalOf | undefined;
  /** Finds the caller by an API key, if the request has no verified credential. */
  readonly identify?: IdentifyKey | undefined;
  /**
   * `anonymous` accepts calls without a known caller, sandboxed and without permissions or policies. By default they are
   * refused.
   */
  readonly unknownCallers?: 'refuse' | 'anonymous' | undefined;
}
