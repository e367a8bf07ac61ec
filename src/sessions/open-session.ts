import type { Config } from '../config/schema.ts';
import { AmbitError } from '../errors.ts';
import { localUser } from '../identity/principal.ts';
import { isAtMost, lowest } from '../trust/bounds.ts';
import type { TrustLevel } from '../trust/trust-level.ts';
import { checkMetadata } from './check-metadata.ts';
import { checkPermissions } from './check-permissions.ts';
import { checkServers } from './check-servers.ts';
import { isGivenId } from './given-id.ts';
import type { Session, SessionDraft } from './session.ts';
import type { Sessions } from './sessions.ts';
import { draftWithin, noParent } from './within-parent.ts';

const namePattern = /^[A-Za-z0-9][A-Za-z0-9._#:@/-]{0,99}$/;
const userPattern = /^[A-Za-z0-9][A-Za-z0-9._@|:-]{0,127}$/;

export type OpenedSession = Awaited<ReturnType<Sessions['create']>>;

/**
 * Opens a session inside its bounds. What is asked for is refused above them; the default, when nothing is asked,
 * is lowered to them.
 */
export async function openSession(sessions: Sessions, config: Config, asked: SessionDraft): Promise<OpenedSession> {
  const parent = asked.parentId === undefined ? undefined : await sessions.load(asked.parentId);
  if (asked.parentId !== undefined && parent === undefined) throw noParent();
  const draft = parent === undefined ? asked : draftWithin(parent, asked);
  if (draft.id !== undefined && !isGivenId(draft.id)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'A session id has 8 to 64 characters of a-z, 0-9 and "-".' });
  }
  checkWord('name', draft.name, namePattern);
  checkWord('user', draft.userId, userPattern);
  checkWord('agent', draft.agentId, userPattern);
  checkTtl(draft.ttlSeconds, config.sessions.maxLifetimeSeconds);
  checkMetadata(draft.metadata, config.sessions.metadataBytes);
  const permissions = checkPermissions(draft.permissions ?? []);
  const servers = draft.servers === undefined ? {} : { servers: checkServers(draft.servers, config) };
  const workspace = draft.workspaceId === undefined ? undefined : config.workspaces[draft.workspaceId];
  if (draft.workspaceId !== undefined && !Object.hasOwn(config.workspaces, draft.workspaceId)) {
    throw new AmbitError('WORKSPACE_NOT_FOUND', { what: `There is no workspace "${draft.workspaceId}".` });
  }
  const bounds: TrustLevel[] = [workspace?.trust ?? 'direct', parent?.trustLevel ?? 'direct'];
  if (config.sessions.allowDirect === 'never') bounds.push('sandboxed');
  const ceiling = lowest(bounds);
  const wanted = draft.trustLevel;
  if (wanted !== undefined && !isAtMost(wanted, ceiling)) {
    throw new AmbitError('TRUST_REQUIRED', {
      what: `The trust level "${wanted}" was asked for, but the bounds here allow "${ceiling}" at most.`,
      rule: workspace?.trust === ceiling ? `workspaces.${draft.workspaceId}.trust` : 'sessions.allowDirect',
    });
  }
  const trustLevel = wanted ?? lowest([config.sessions.defaultTrust, ceiling]);
  const userId = draft.userId ?? localUser;
  return sessions.create({ ...draft, ...servers, permissions, userId, trustLevel, ...endingWith(parent, config) });
}

/** No longer than its parent can; whoever ends the parent ends it too. */
function endingWith(parent: Session | undefined, config: Config): { readonly lifetimeSeconds?: number } {
  if (parent === undefined) return {};
  // A second less: opening takes its time, and the store has its own clock.
  const left = Math.floor((parent.endsAt - Date.now()) / 1000) - 1;
  return { lifetimeSeconds: Math.max(1, Math.min(left, config.sessions.maxLifetimeSeconds)) };
}

function checkWord(what: string, value: string | undefined, pattern: RegExp): void {
  if (value === undefined || pattern.test(value)) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ${what} is not valid: it starts with a letter or digit, is short, and has no spaces.`,
  });
}

function checkTtl(ttl: number | undefined, most: number): void {
  if (ttl === undefined || (Number.isInteger(ttl) && ttl >= 1 && ttl <= most)) return;
  throw new AmbitError('REQUEST_INVALID', { what: `The ttl must be a whole number of seconds from 1 to ${most}.` });
}
