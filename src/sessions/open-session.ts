import { suggestClosest } from '../config/explain/suggest.ts';
import { findWorkspace, listWorkspaces } from '../config/load/workspace-folders.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { type AccessCeiling, localUser } from '../identity/principal.ts';
import type { SessionOpener } from '../stores/record.ts';
import { checkDraft, checkServers, checkTrust } from './check-fields.ts';
import { boundDraft, parentNotFound } from './parent-bounds.ts';
import type { Session, SessionDraft } from './session.ts';
import type { Sessions } from './sessions.ts';
import { directBound, mostTrustIn, type TrustBound, trustWithin } from './trust-bounds.ts';

export type OpenedSession = Awaited<ReturnType<Sessions['create']>>;

export interface OpeningBounds {
  /** The bounds of the credential that opens the session. */
  readonly ceiling?: AccessCeiling | undefined;
  /** Called only where direct sessions depend on it. */
  readonly hasSeveralUsers?: (() => Promise<boolean>) | undefined;
  /** Whether a child of a session without a workspace may get one: only if the operator opens it. */
  readonly mayChooseWorkspace?: boolean | undefined;
  /** The opener, which is kept with the session so that people can see where its values come from. */
  readonly openedBy?: SessionOpener | undefined;
}

/** Opens a session inside its bounds. A request above them is refused; a default is lowered to them. */
export async function openSession(
  sessions: Sessions,
  config: Config,
  given: SessionDraft,
  { ceiling, hasSeveralUsers, mayChooseWorkspace, openedBy }: OpeningBounds = {},
): Promise<OpenedSession> {
  const request = given.trustLevel === undefined ? given : { ...given, trustLevel: checkTrust(given.trustLevel) };
  const parent = request.parentId === undefined ? undefined : await sessions.load(request.parentId);
  if (request.parentId !== undefined && parent === undefined) throw parentNotFound();
  const { ttlSeconds } = config.sessions;
  const draft = parent === undefined ? request : boundDraft(parent, request, { ttlSeconds, mayChooseWorkspace });
  const { permissions } = checkDraft(draft, config.sessions);
  const servers = draft.servers === undefined ? {} : { servers: checkServers(draft.servers, config) };
  const workspace = findWorkspace(config, draft.workspaceId);
  const isKnown = draft.workspaceId === undefined || workspace !== undefined;
  // A workspace that the credential may not use is treated like one that does not exist.
  const { workspaces: allowed = null } = ceiling ?? {};
  const isAllowed = allowed === null || (draft.workspaceId !== undefined && allowed.includes(draft.workspaceId));
  if (!isKnown || !isAllowed) {
    // Only the operator, who has no ceiling, is told the names of workspaces.
    const names = ceiling === undefined ? listWorkspaces(config).names : [];
    const { workspaceId = '' } = draft;
    throw new AmbitError('WORKSPACE_NOT_FOUND', {
      what: `There is no workspace "${workspaceId}"${suggestClosest(workspaceId, names) || '.'}`,
    });
  }
  assertScopes(permissions, ceiling);
  const bounds: TrustBound[] = [
    { max: workspace?.trust ?? 'direct', rule: `workspaces.${draft.workspaceId}.trust` },
    { max: parent?.trustLevel ?? 'direct', rule: 'parent.trustLevel' },
    { max: ceiling === undefined ? 'direct' : mostTrustIn(ceiling, draft.workspaceId), rule: 'key.trustLevel' },
  ];
  const { defaultTrust } = config.sessions;
  const mayBeDirect = (draft.trustLevel ?? defaultTrust) === 'direct' && bounds.every(({ max }) => max === 'direct');
  if (mayBeDirect) bounds.push(await directBound(config.sessions, hasSeveralUsers));
  const trustLevel = trustWithin(bounds, draft.trustLevel, defaultTrust);
  const userId = draft.userId ?? localUser;
  const { maxLifetimeSeconds } = config.sessions;
  const lifetime = parent === undefined ? {} : { lifetimeSeconds: lifetimeWithin(parent, maxLifetimeSeconds) };
  const origin = openedBy === undefined ? {} : { origin: { by: openedBy, given: listGiven(given), restricted: [] } };
  return sessions.create({ ...draft, ...servers, permissions, userId, trustLevel, ...lifetime, ...origin });
}

/** The members of a draft whose source is shown with the session. */
const sourcedMembers = [
  ...(['id', 'name', 'userId', 'agentId', 'workspaceId', 'trustLevel'] as const),
  ...(['permissions', 'servers', 'ttlSeconds', 'quotas', 'task'] as const),
];

function listGiven(draft: SessionDraft): string[] {
  return sourcedMembers.filter((name) => draft[name] !== undefined);
}

function assertScopes(permissions: readonly string[], ceiling: AccessCeiling | undefined): void {
  const beyond = permissions.find((name) => ceiling?.scopes?.includes(name) === false);
  if (beyond === undefined) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The credential does not allow the permission "${beyond}".`,
    hint: 'Request fewer permissions.',
    rule: 'key.scopes',
  });
}

/** Bounds the lifetime of a child to that of its parent. */
export function lifetimeWithin(parent: Session, maxSeconds: number): number {
  // A second less, since opening takes time and the store has its own clock.
  const left = Math.floor((parent.endsAt - Date.now()) / 1000) - 1;
  return Math.max(1, Math.min(left, maxSeconds));
}
