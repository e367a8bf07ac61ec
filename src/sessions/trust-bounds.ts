import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import type { AccessCeiling } from '../identity/principal.ts';
import type { SessionBase } from '../rules/session-base.ts';
import { findLowestTrust, isTrustAtMost, type TrustLevel } from '../rules/trust-level.ts';

interface Bounded extends Pick<SessionBase, 'trustLevel' | 'permissions'> {
  readonly workspaceId?: SessionBase['workspaceId'] | undefined;
  readonly agentId?: SessionBase['agentId'] | undefined;
}

/** An upper bound for the trust of a session, with the rule that sets it. */
export interface TrustBound {
  readonly max: TrustLevel;
  readonly rule: string;
  readonly why?: string;
}

/** The bound for direct sessions. With several users, a direct server could read files of the other users. */
export async function directBound(
  { allowDirect }: Config['sessions'],
  hasSeveralUsers: (() => Promise<boolean>) | undefined,
): Promise<TrustBound> {
  const rule = 'sessions.allowDirect';
  if (allowDirect === 'never') return { max: 'sandboxed', rule };
  if (allowDirect === 'always' || (await hasSeveralUsers?.()) !== true) return { max: 'direct', rule };
  const why = 'more than one user can call this gateway, and a direct server could read data of other users';
  return { max: 'sandboxed', rule, why };
}

/** The trust level within the bounds. A requested level above them is refused; the default is lowered to them. */
export function trustWithin(
  bounds: readonly TrustBound[],
  wanted: TrustLevel | undefined,
  standard: TrustLevel,
): TrustLevel {
  const ceiling = findLowestTrust(bounds.map(({ max }) => max));
  if (wanted === undefined) return findLowestTrust([standard, ceiling]);
  if (isTrustAtMost(wanted, ceiling)) return wanted;
  const { rule, why } = bounds.find(({ max }) => max === ceiling) as TrustBound;
  const because = why === undefined ? '' : `: ${why}`;
  throw new AmbitError('TRUST_REQUIRED', {
    what: `The trust level "${wanted}" was requested, but at most "${ceiling}" is allowed here${because}.`,
    rule,
  });
}

/**
 * Whether a credential with this ceiling may use a session, whoever opened it. A session without a workspace could be
 * used in any, so it is beyond a ceiling that names workspaces.
 */
export function isWithinCeiling(session: Bounded, ceiling: AccessCeiling): boolean {
  const { trustLevel, workspaceId, permissions } = session;
  const { workspaces, scopes, agentId } = ceiling;
  return (
    (agentId === undefined || session.agentId === agentId) &&
    isTrustAtMost(trustLevel, mostTrustIn(ceiling, workspaceId)) &&
    (workspaces === null || (typeof workspaceId === 'string' && workspaces.includes(workspaceId))) &&
    (scopes === null || permissions.every((name) => scopes.includes(name)))
  );
}

/** The highest trust level of a session in this workspace. A session without a workspace could be used in any. */
export function mostTrustIn(
  { trustLevel, directIn }: AccessCeiling,
  workspaceId: string | null | undefined,
): TrustLevel {
  if (directIn === undefined || (typeof workspaceId === 'string' && directIn.includes(workspaceId))) return trustLevel;
  return 'sandboxed';
}
