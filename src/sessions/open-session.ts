import { suggestClosest } from '../config/explain/suggest.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { type AccessCeiling, localUser } from '../identity/principal.ts';
import { userNamePattern } from '../lib/text/name-patterns.ts';
import { checkMetadata, checkPermissions, checkServers } from './check-fields.ts';
import { boundDraft, parentNotFound } from './parent-bounds.ts';
import { isSuppliedId, type Session, type SessionDraft } from './session.ts';
import type { Sessions } from './sessions.ts';
import { directBound, mostTrustIn, type TrustBound, trustWithin } from './trust-bounds.ts';

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._#:@/-]{0,99}$/;

export type OpenedSession = Awaited<ReturnType<Sessions['create']>>;

export interface OpeningBounds {
  /** The bounds of the credential that opens the session. */
  readonly ceiling?: AccessCeiling | undefined;
  /** Called only where direct sessions depend on it. */
  readonly hasSeveralUsers?: (() => Promise<boolean>) | undefined;
}

/** Opens a session inside its bounds. A request above them is refused; a default is lowered to them. */
export async function openSession(
  sessions: Sessions,
  config: Config,
  request: SessionDraft,
  { ceiling, hasSeveralUsers }: OpeningBounds = {},
): Promise<OpenedSession> {
  const parent = request.parentId === undefined ? undefined : await sessions.load(request.parentId);
  if (request.parentId !== undefined && parent === undefined) throw parentNotFound();
  const draft = parent === undefined ? request : boundDraft(parent, request);
  if (draft.id !== undefined && !isSuppliedId(draft.id)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'A session id has 8 to 64 characters of a-z, 0-9 and "-".' });
  }
  assertPattern('name', draft.name, namePattern);
  assertPattern('user', draft.userId, userNamePattern);
  assertPattern('agent', draft.agentId, userNamePattern);
  assertTtl(draft.ttlSeconds, config.sessions.maxLifetimeSeconds);
  checkMetadata(draft.metadata, config.sessions.metadataBytes);
  const permissions = checkPermissions(draft.permissions ?? []);
  const servers = draft.servers === undefined ? {} : { servers: checkServers(draft.servers, config) };
  const workspace = draft.workspaceId === undefined ? undefined : config.workspaces[draft.workspaceId];
  const isKnown = draft.workspaceId === undefined || Object.hasOwn(config.workspaces, draft.workspaceId);
  // A workspace that the credential may not use is treated like one that does not exist.
  const { workspaces: allowed = null } = ceiling ?? {};
  const isAllowed = allowed === null || (draft.workspaceId !== undefined && allowed.includes(draft.workspaceId));
  if (!isKnown || !isAllowed) {
    // Only the operator, who has no ceiling, is told the names of workspaces.
    const names = ceiling === undefined ? Object.keys(config.workspaces) : [];
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
  return sessions.create({ ...draft, ...servers, permissions, userId, trustLevel, ...lifetimeWithin(parent, config) });
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
function lifetimeWithin(parent: Session | undefined, config: Config): { readonly lifetimeSeconds?: number } {
  if (parent === undefined) return {};
  // A second less, since opening takes time and the store has its own clock.
  const left = Math.floor((parent.endsAt - Date.now()) / 1000) - 1;
  return { lifetimeSeconds: Math.max(1, Math.min(left, config.sessions.maxLifetimeSeconds)) };
}

function assertPattern(what: string, value: string | undefined, pattern: RegExp): void {
  if (value === undefined || pattern.test(value)) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ${what} is not valid: it must be short, start with a letter or digit, and contain no spaces.`,
  });
}

function assertTtl(ttl: number | undefined, maxSeconds: number): void {
  if (ttl === undefined || (Number.isInteger(ttl) && ttl >= 1 && ttl <= maxSeconds)) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ttl must be a whole number of seconds from 1 to ${maxSeconds}.`,
  });
}
