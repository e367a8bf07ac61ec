import type { Ceiling } from '../identity/principal.ts';
import type { SessionBase } from '../rules/session-base.ts';
import { isAtMost, type TrustLevel } from '../rules/trust-level.ts';

interface Bounded extends Pick<SessionBase, 'trustLevel' | 'permissions'> {
  readonly workspaceId?: SessionBase['workspaceId'] | undefined;
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
