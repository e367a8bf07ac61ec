import { isAbsolute } from 'node:path';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { assertPrefixes } from '../../context/for-tools/session-context.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { localUser } from '../../identity/principal.ts';
import type { Log } from '../../observability/log/log.ts';
import type { QuotaScope } from '../../observability/metrics/metrics.ts';
import type { ActingSession, Optional } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkDraft, checkTrust } from '../../sessions/check-fields.ts';
import type { SessionBounds } from '../../sessions/create-session.ts';
import type { Quotas } from '../../sessions/quotas.ts';
import type { SessionEndReason } from '../../sessions/session.ts';
import { readSessionVariables, type SessionEnvironment } from '../../sessions/session-environment.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type Environment, startEnvironment } from '../sdk/current-session.ts';
import type { ContextOptions } from '../sdk/with-session.ts';
import type { DeclaredWorkspaces, FileOptions } from './declared-workspaces.ts';
import type { GivenGovernance } from './governance.ts';

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

/** The settings of this server: from the options, else from the environment, else the defaults. */
export interface ServerSettings {
  readonly bounds: SessionBounds;
  readonly includeMeta: boolean;
  readonly storeDir: string | undefined;
  /** The keys of `_meta` under which clients announce a workspace. */
  readonly announceKeys: readonly string[];
  /** Ambit started this process, so the environment comes from Ambit. */
  readonly startedByAmbit: boolean;
  /** An invalid environment variable. The author cannot correct it, so calls are refused with it. */
  readonly problem: AmbitError | undefined;
  /** The session that the options or the environment of this process name. */
  readonly named: {
    readonly id: string | undefined;
    readonly token: string | undefined;
    /** The user it has to belong to, if given. */
    readonly userId: string | undefined;
  };
  readonly local: {
    readonly userId: string;
    readonly agentId: string | undefined;
    readonly trustLevel: TrustLevel;
    readonly permissions: readonly string[];
    /** A slug or an absolute path. */
    readonly workspace: string | undefined;
  };
}

export const maxMetadataBytes = 10_240;

const knownOptions: Readonly<Record<keyof ServerSessionsOptions, true>> = {
  store: true,
  storeDir: true,
  ttlSeconds: true,
  maxLifetimeSeconds: true,
  maxSessions: true,
  maxPerUser: true,
  quotas: true,
  includeMeta: true,
  tools: true,
  files: true,
  workspaces: true,
  announceKeys: true,
  governance: true,
  local: true,
  envPrefix: true,
  log: true,
  metrics: true,
  context: true,
  principal: true,
  identify: true,
  unknownCallers: true,
};
const knownGovernance: Readonly<Record<keyof GivenGovernance, true>> = {
  policies: true,
  objectives: true,
  teamsOf: true,
  resolve: true,
  issuer: true,
};
const knownLocal: Readonly<Record<keyof LocalSessions, true>> = {
  id: true,
  userId: true,
  agentId: true,
  trustLevel: true,
  permissions: true,
  workspace: true,
};

/** Refuses options that do not exist: a misspelt one would have no effect. */
function checkNames(options: ServerSessionsOptions): void {
  const groups = [
    ['', options, knownOptions],
    ['governance.', options.governance ?? {}, knownGovernance],
    ['local.', options.local ?? {}, knownLocal],
  ] as const;
  for (const [prefix, given, known] of groups) {
    const odd = Object.keys(given).find((name) => !Object.hasOwn(known, name));
    if (odd === undefined) continue;
    const meant = suggestClosest(odd, Object.keys(known));
    throw new AmbitError('CONFIG_INVALID', { what: `There is no option "${prefix}${odd}"${meant || '.'}` });
  }
  const { principal, identify, unknownCallers = 'refuse', governance } = options;
  const functions = {
    principal,
    identify,
    'governance.resolve': governance?.resolve,
    'governance.teamsOf': governance?.teamsOf,
  };
  for (const [name, value] of Object.entries(functions)) {
    if (value !== undefined && typeof value !== 'function')
      throw new AmbitError('CONFIG_INVALID', { what: `The option "${name}" must be a function.` });
  }
  if (unknownCallers !== 'refuse' && unknownCallers !== 'anonymous')
    throw new AmbitError('CONFIG_INVALID', { what: 'unknownCallers must be "refuse" or "anonymous".' });
}

/** Reads the settings. Throws if an option is invalid. */
export function readSettings(options: ServerSessionsOptions): ServerSettings {
  checkNames(options);
  const env = options.context?.env ?? startEnvironment;
  const { local = {}, envPrefix = 'AMBIT', maxLifetimeSeconds = 86_400 } = options;
  assertPrefixes([envPrefix]);
  const { variables, problem } = readVariables(env, envPrefix, maxLifetimeSeconds);
  const ttlSeconds = options.ttlSeconds ?? variables?.draft.ttlSeconds ?? Math.min(3600, maxLifetimeSeconds);
  const { maxSessions = 1000, maxPerUser = 200 } = options;
  for (const [name, value] of Object.entries({ ttlSeconds, maxLifetimeSeconds, maxSessions, maxPerUser })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new AmbitError('CONFIG_INVALID', { what: `${name} must be a whole number of at least 1.` });
    }
  }
  if (ttlSeconds > maxLifetimeSeconds)
    throw new AmbitError('CONFIG_INVALID', { what: describeLongTtl(ttlSeconds, maxLifetimeSeconds) });
  const userId = local.userId ?? variables?.draft.userId;
  const agentId = local.agentId ?? variables?.draft.agentId;
  const id = local.id ?? variables?.id;
  const given = {
    ...(id === undefined ? {} : { id }),
    ...(userId === undefined ? {} : { userId }),
    ...(agentId === undefined ? {} : { agentId }),
    permissions: local.permissions ?? [],
  };
  const { permissions } = checkDraft(given, { maxLifetimeSeconds, metadataBytes: maxMetadataBytes });
  return {
    bounds: { ttlSeconds, maxLifetimeSeconds, maxSessions, maxPerUser },
    includeMeta: options.includeMeta ?? variables?.includeMeta ?? false,
    storeDir: options.storeDir ?? variables?.storeDir,
    announceKeys: options.announceKeys ?? ['ambit'],
    startedByAmbit: Boolean(env.AMBIT_JWKS || env.AMBIT_TRUST_LEVEL),
    problem,
    named: { id, token: variables?.token, userId },
    local: {
      userId: userId ?? localUser,
      agentId,
      trustLevel: checkTrust(local.trustLevel ?? 'sandboxed'),
      permissions,
      workspace: local.workspace ?? variables?.workspacePath,
    },
  };
}

/** Reads the environment. An invalid value is returned as a problem, so that the client learns of it. */
function readVariables(
  env: Environment,
  prefix: string,
  maxLifetimeSeconds: number,
): { readonly variables?: SessionEnvironment; readonly problem: AmbitError | undefined } {
  const createError = (what: string) =>
    new AmbitError('CONFIG_INVALID', {
      what: `${what}.`,
      hint: 'Correct the environment of this server and restart it.',
    });
  try {
    const variables = readSessionVariables(env, createError, prefix);
    const { ttlSeconds } = variables.draft;
    if (ttlSeconds !== undefined && ttlSeconds > maxLifetimeSeconds)
      throw createError(
        `${prefix}_SESSION_TTL_SECONDS: ${describeLongTtl(ttlSeconds, maxLifetimeSeconds).slice(0, -1)}`,
      );
    if (variables.workspacePath !== undefined && !isAbsolute(variables.workspacePath))
      throw createError(`${prefix}_WORKSPACE_PATH must be an absolute path`);
    return { variables, problem: undefined };
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    return { problem: error };
  }
}

function describeLongTtl(ttlSeconds: number, maxSeconds: number): string {
  return `Sessions end after ${maxSeconds} s in any case; a ttl of ${ttlSeconds} s has no effect.`;
}
