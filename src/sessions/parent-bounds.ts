import { AmbitError } from '../errors.ts';
import { isTrustAtMost } from '../rules/trust-level.ts';
import type { Limits } from '../stores/admission.ts';
import type { Restriction, Session, SessionDraft } from './session.ts';

export interface ChildOptions {
  /** The ttl of a child that requests none, if its parent does not have a shorter one. */
  readonly ttlSeconds?: number;
  /** Whether a child of a session without a workspace may get one. Only the operator may choose it. */
  readonly mayChooseWorkspace?: boolean | undefined;
}

/**
 * Bounds a draft by its parent. A request beyond the parent is refused; missing members are taken from the parent, but
 * permissions are not.
 */
export function boundDraft(parent: Session, draft: SessionDraft, options: ChildOptions = {}): SessionDraft {
  const { userId = parent.userId, workspaceId = parent.workspaceId, servers = parent.servers } = draft;
  const { ttlSeconds = Math.min(options.ttlSeconds ?? parent.ttlSeconds, parent.ttlSeconds) } = draft;
  if (userId !== parent.userId) throw parentNotFound();
  const mayChoose = parent.workspaceId === undefined && options.mayChooseWorkspace === true;
  if (workspaceId !== parent.workspaceId && !mayChoose) {
    const place = parent.workspaceId === undefined ? 'no workspace' : `the workspace "${parent.workspaceId}"`;
    throw beyondParent(`works in ${place}`, 'workspaceId');
  }
  if (ttlSeconds > parent.ttlSeconds) {
    throw beyondParent(`expires after ${parent.ttlSeconds} s without a call`, 'ttlSeconds');
  }
  const other = servers?.find((name) => parent.servers !== undefined && !parent.servers.includes(name));
  if (other !== undefined) throw beyondParent(`may not use the server "${other.slice(0, 60)}"`, 'servers');
  const gained = draft.permissions?.find((name) => !parent.permissions.includes(name));
  if (gained !== undefined) throw beyondParent(`does not have the permission "${gained.slice(0, 60)}"`, 'permissions');
  if (draft.trustLevel !== undefined && !isTrustAtMost(draft.trustLevel, parent.trustLevel)) {
    throw new AmbitError('TRUST_REQUIRED', {
      what: `The trust level "${draft.trustLevel}" was requested, but the parent is "${parent.trustLevel}".`,
      rule: 'parent.trustLevel',
    });
  }
  const quotas = boundQuotas(parent, draft);
  return {
    ...draft,
    userId,
    ttlSeconds,
    ...(parent.keyId === undefined ? {} : { keyId: parent.keyId }),
    ...(quotas === undefined ? {} : { quotas }),
    ...(workspaceId === undefined ? {} : { workspaceId }),
    ...(servers === undefined ? {} : { servers }),
  };
}

/** The quotas of a child: those of its parent, and lower ones that were requested. */
function boundQuotas(parent: Session, { quotas }: SessionDraft): Limits | undefined {
  for (const [name, wanted] of Object.entries(quotas ?? {})) {
    const allowed = parent.quotas?.[name as keyof Limits];
    if (allowed !== undefined && wanted > allowed) throw beyondParent(`has the limit ${name}: ${allowed}`, 'quotas');
  }
  return quotas === undefined ? parent.quotas : { ...parent.quotas, ...quotas };
}

/** The restriction of a child that its restricted parent requires; undefined when the child fits already. */
export function restrictionForChild(parent: Session, child: Session): Restriction | undefined {
  const trustLevel = isTrustAtMost(child.trustLevel, parent.trustLevel) ? {} : { trustLevel: parent.trustLevel };
  const permissions = child.permissions.filter((name) => parent.permissions.includes(name));
  const servers = parent.servers && (child.servers ?? parent.servers).filter((name) => parent.servers?.includes(name));
  const change: Restriction = {
    ...trustLevel,
    ...(child.ttlSeconds > parent.ttlSeconds ? { ttlSeconds: parent.ttlSeconds } : {}),
    ...(permissions.length === child.permissions.length ? {} : { permissions }),
    ...(servers === undefined || servers.length === child.servers?.length ? {} : { servers }),
  };
  return Object.keys(change).length === 0 ? undefined : change;
}

export function parentNotFound(): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', {
    what: 'This user has no live session with that id that could be the parent.',
  });
}

function beyondParent(what: string, rule: string): AmbitError {
  return new AmbitError('REQUEST_INVALID', {
    what: `The parent ${what}, and its child sessions are bound by that.`,
    hint: 'Request less, or leave out the parent.',
    rule: `parent.${rule}`,
  });
}
