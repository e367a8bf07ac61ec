import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Ceiling } from '../identity/principal.ts';
import { isAtMost, lowest } from '../rules/bounds.ts';
import type { SessionBase } from '../rules/session-base.ts';
import type { TrustLevel } from '../rules/trust-level.ts';

interface Bounded extends Pick<SessionBase, 'trustLevel' | 'permissions'> {
  readonly workspaceId?: SessionBase['workspaceId'] | undefined;
}

/** One thing that bounds the trust of a session, and what it is called. */
export interface TrustBound {
  readonly most: TrustLevel;
  readonly rule: string;
  readonly why?: string;
}

/** Several users: whoever acts with the operator's own authority could read what belongs to the others. */
export async function directBound(
  { allowDirect }: Config['sessions'],
  ofSeveralUsers: (() => Promise<boolean>) | undefined,
): Promise<TrustBound> {
  const rule = 'sessions.allowDirect';
  if (allowDirect === 'never') return { most: 'sandboxed', rule };
  if (allowDirect === 'always' || (await ofSeveralUsers?.()) !== true) return { most: 'direct', rule };
  const why = 'more than one user can call here, and a direct server could read what is not its own user’s';
  return { most: 'sandboxed', rule, why };
}

/** What is asked for is refused above the bounds; the default is lowered to them. */
export function trustWithin(
  bounds: readonly TrustBound[],
  wanted: TrustLevel | undefined,
  standard: TrustLevel,
): TrustLevel {
  const ceiling = lowest(bounds.map(({ most }) => most));
  if (wanted === undefined) return lowest([standard, ceiling]);
  if (isAtMost(wanted, ceiling)) return wanted;
  const { rule, why } = bounds.find(({ most }) => most === ceiling) as TrustBound;
  const because = why === undefined ? '' : `: ${why}`;
  throw new AmbitError('TRUST_REQUIRED', {
    what: `The trust level "${wanted}" was asked for, but the bounds here allow "${ceiling}" at most${because}.`,
    rule,
  });
}

/**
 * Whether a credential with this ceiling may use a session, whoever opened it. One without a workspace is beyond a
 * ceiling that names some: it could be used in any.
 */
export function isWithinCeiling({ trustLevel, workspaceId, permissions }: Bounded, ceiling: Ceiling): boolean {
  const { workspaces, scopes } = ceiling;
  return (
    isAtMost(trustLevel, mostTrustIn(ceiling, workspaceId)) &&
    (workspaces === null || (typeof workspaceId === 'string' && workspaces.includes(workspaceId))) &&
    (scopes === null || permissions.every((name) => scopes.includes(name)))
  );
}

/** The most that a session in this workspace may have; one without a workspace could be used in any. */
export function mostTrustIn({ trustLevel, directIn }: Ceiling, workspaceId: string | null | undefined): TrustLevel {
  if (directIn === undefined || (typeof workspaceId === 'string' && directIn.includes(workspaceId))) return trustLevel;
  return 'sandboxed';
}
