import { AmbitError } from '../../errors.ts';
import { localUser } from '../../identity/principal.ts';
import type { ActingSession, Optional } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkPermissions } from '../../sessions/check-permissions.ts';
import type { Quotas } from '../../sessions/grant-size.ts';
import { readNamed } from '../../sessions/named-by-environment.ts';
import type { SessionBounds } from '../../sessions/sessions.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type Environment, startEnvironment } from '../sdk/current-session.ts';
import type { ContextOptions } from '../sdk/read-context.ts';

/** What holds for this server: the options, else the environment, else what is usual. */
export interface Settings {
  readonly env: Environment;
  readonly bounds: SessionBounds;
  readonly includeMeta: boolean;
  readonly storeDir: string | undefined;
  /** Ambit started this process; its environment is Ambit's word. */
  readonly startedByAmbit: boolean;
  /** The session that whoever started this process named. */
  readonly named: {
    readonly id: string | undefined;
    readonly token: string | undefined;
    /** Whose it has to be, where they said that too. */
    readonly userId: string | undefined;
  };
  readonly local: {
    readonly userId: string;
    readonly agentId: string | undefined;
    readonly trustLevel: TrustLevel;
    readonly permissions: readonly string[];
  };
}

/** What the SDK hands on about the credential of an HTTP request; the server in front of it has verified it. */
export interface AuthInfo {
  readonly token: string;
  readonly clientId: string;
  readonly scopes: readonly string[];
  readonly expiresAt?: number | undefined;
  readonly extra?: Readonly<Record<string, unknown>> | undefined;
}

/** A user, and how far calls with this credential may go; or a session, by the token it was opened with. */
export type CallerPrincipal =
  | {
      readonly userId: string;
      readonly agentId?: string | undefined;
      readonly workspaceId?: string | undefined;
      /** At most this; a session that was opened with less keeps less. Sandboxed unless told. */
      readonly trustLevel?: TrustLevel | undefined;
      /** As `trustLevel`. None unless told. */
      readonly permissions?: readonly string[] | undefined;
    }
  | { readonly sessionToken: string };

/** Who is calling, by what was verified about the request; undefined for nobody, which is refused. */
export type PrincipalOf = (
  auth: AuthInfo | undefined,
) => CallerPrincipal | undefined | Promise<CallerPrincipal | undefined>;

/** What the options leave open, the environment says (`AMBIT_SESSION_…`, `AMBIT_USER_ID`, `AMBIT_AGENT_ID`). */
export interface OwnOptions {
  /** Any store of `ambit/stores`; whoever opened it closes it. */
  readonly store?: SessionStore | Promise<SessionStore> | undefined;
  /** A folder for a store of its own, in SQLite. Without it and without `store`, sessions are kept in memory. */
  readonly storeDir?: string | undefined;
  /** A session ends after this long without a call. 3600 unless told. */
  readonly ttlSeconds?: number | undefined;
  /** A session ends after this long, used or not. 86400 unless told. */
  readonly maxLifetimeSeconds?: number | undefined;
  /** How many are kept in memory at most. 1000 unless told. */
  readonly maxSessions?: number | undefined;
  /** Most live sessions of one user. 200 unless told. */
  readonly maxPerUser?: number | undefined;
  /** None unless told. */
  readonly quotas?: Quotas | undefined;
  /** Names session and correlation id in `_meta["ambit/session"]` of results. */
  readonly includeMeta?: boolean | undefined;
  /** Offers `session_info`, `session_list`, `session_end`, `session_state_*` and, with `governance`, `session_context` beside the server's own tools. */
  readonly tools?: boolean | undefined;
  /** Policies and objectives that the first result of each session begins with; Ambit's own, where it stands in front. */
  readonly governance?: GivenGovernance | undefined;
  /** Of sessions on stdio, where whoever starts the server is who calls it. */
  readonly local?: LocalSessions | undefined;
  /** How contexts are verified where Ambit stands in front: audience and keys, over HTTP. */
  readonly context?: ContextOptions | undefined;
}

/** Beside what `ambit policy` and `ambit objective` have written into the same store. */
export interface GivenGovernance {
  readonly policies?: readonly {
    readonly name: string;
    readonly text: string;
    /** `org` unless told. */
    readonly scope?: string | undefined;
    /** `prepend` unless told. */
    readonly mode?: 'prepend' | 'append' | undefined;
    readonly locked?: boolean | undefined;
  }[];
  readonly objectives?: readonly { readonly text: string; readonly scope?: string | undefined }[];
  readonly teamsOf?: ((userId: string) => readonly string[] | Promise<readonly string[]>) | undefined;
}

export interface LocalSessions extends Optional<Omit<ActingSession, 'id' | 'workspaceId'>> {}

export interface ServerSessionsOptions extends OwnOptions {
  /** Over HTTP without Ambit in front. Without it such calls are refused. */
  readonly principal?: PrincipalOf | undefined;
}

export function settingsOf(options: ServerSessionsOptions): Settings {
  const env = options.context?.env ?? startEnvironment;
  const named = readNamed(env, (what) => new AmbitError('CONFIG_INVALID', { what: `${what}.` }));
  const { local = {}, maxLifetimeSeconds = 86_400 } = options;
  const ttlSeconds = options.ttlSeconds ?? named.draft.ttlSeconds ?? Math.min(3600, maxLifetimeSeconds);
  if (ttlSeconds > maxLifetimeSeconds) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `Sessions end after ${maxLifetimeSeconds} s, used or not; a ttl of ${ttlSeconds} s would never count.`,
    });
  }
  const userId = local.userId ?? named.draft.userId;
  const { maxSessions = 1000, maxPerUser = Math.min(200, maxSessions) } = options;
  for (const [name, value] of Object.entries({ ttlSeconds, maxLifetimeSeconds, maxSessions, maxPerUser })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new AmbitError('CONFIG_INVALID', { what: `${name} must be a whole number from 1 on.` });
    }
  }
  return {
    env,
    bounds: { ttlSeconds, maxLifetimeSeconds, maxSessions, maxPerUser },
    includeMeta: options.includeMeta ?? named.includeMeta ?? false,
    storeDir: options.storeDir ?? named.storeDir,
    startedByAmbit: Boolean(env.AMBIT_JWKS || env.AMBIT_TRUST_LEVEL),
    named: { id: named.id, token: named.token, userId },
    local: {
      userId: userId ?? localUser,
      agentId: local.agentId ?? named.draft.agentId,
      // Unknown never means direct.
      trustLevel: local.trustLevel === 'direct' ? 'direct' : 'sandboxed',
      permissions: checkPermissions(local.permissions ?? []),
    },
  };
}
