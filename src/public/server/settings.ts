import { AmbitError } from '../../errors.ts';
import { localUser } from '../../identity/principal.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkPermissions } from '../../sessions/check-fields.ts';
import { readSessionVariables } from '../../sessions/session-environment.ts';
import type { SessionBounds } from '../../sessions/sessions.ts';
import { startEnvironment } from '../sdk/current-session.ts';
import type { ServerSessionsOptions } from './options.ts';

/** The settings of this server: from the options, else from the environment, else the defaults. */
export interface ServerSettings {
  readonly bounds: SessionBounds;
  readonly includeMeta: boolean;
  readonly storeDir: string | undefined;
  /** Ambit started this process, so the environment comes from Ambit. */
  readonly startedByAmbit: boolean;
  /** The session that the environment of this process names. */
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
  };
}

export function readSettings(options: ServerSessionsOptions): ServerSettings {
  const env = options.context?.env ?? startEnvironment;
  const named = readSessionVariables(env, (what) => new AmbitError('CONFIG_INVALID', { what: `${what}.` }));
  const { local = {}, maxLifetimeSeconds = 86_400 } = options;
  const ttlSeconds = options.ttlSeconds ?? named.draft.ttlSeconds ?? Math.min(3600, maxLifetimeSeconds);
  if (ttlSeconds > maxLifetimeSeconds) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `Sessions end after ${maxLifetimeSeconds} s in any case; a ttl of ${ttlSeconds} s has no effect.`,
    });
  }
  const userId = local.userId ?? named.draft.userId;
  const { maxSessions = 1000, maxPerUser = Math.min(200, maxSessions) } = options;
  for (const [name, value] of Object.entries({ ttlSeconds, maxLifetimeSeconds, maxSessions, maxPerUser })) {
    if (!Number.isSafeInteger(value) || value < 1) {
      throw new AmbitError('CONFIG_INVALID', { what: `${name} must be a whole number of at least 1.` });
    }
  }
  return {
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
