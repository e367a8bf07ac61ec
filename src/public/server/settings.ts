import { isAbsolute } from 'node:path';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { assertPrefixes } from '../../context/for-tools/session-context.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { localUser } from '../../identity/principal.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkDraft, checkTrust } from '../../sessions/check-fields.ts';
import type { SessionBounds } from '../../sessions/create-session.ts';
import { readSessionVariables, type SessionEnvironment } from '../../sessions/session-environment.ts';
import { type Environment, startEnvironment } from '../sdk/current-session.ts';
import type { GivenGovernance } from './governance.ts';
import type { LocalSessions, ServerSessionsOptions } from './options.ts';

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
