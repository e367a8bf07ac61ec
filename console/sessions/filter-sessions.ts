import { readQuery } from '../frame/route.ts';
import { findNearestLimit } from './limits.ts';
import { countCalls, type LiveSession } from './live-sessions.ts';

/** The filters of the list, as the address has them. An empty text does not filter. */
export interface SessionFilter {
  readonly text: string;
  readonly user: string;
  readonly workspace: string;
  readonly trust: string;
  readonly show: string;
  readonly sort: string;
  /** The id of a session. It and its descendants are shown. */
  readonly family: string;
}

const nearLimit = 0.8;

export function readSessionFilter(): SessionFilter {
  return {
    text: readQuery('text'),
    user: readQuery('user'),
    workspace: readQuery('workspace'),
    trust: readQuery('trust'),
    show: readQuery('show'),
    sort: readQuery('sort'),
    family: readQuery('family'),
  };
}

type Compare = (one: LiveSession, other: LiveSession) => number;

/** The orders of the list. The first one is that of the list itself: rows do not move while somebody reads. */
export const sortings: readonly { readonly name: string; readonly label: string; readonly compare?: Compare }[] = [
  { name: '', label: 'Newest first' },
  { name: 'active', label: 'Last call first', compare: descending(({ activity }) => activity?.lastCallAt ?? '') },
  { name: 'calls', label: 'Most calls', compare: descending((session) => countCalls(session)) },
  { name: 'errors', label: 'Most errors', compare: descending(({ activity }) => activity?.errors ?? 0) },
  { name: 'name', label: 'Name', compare: (one, other) => ((one.name ?? one.id) < (other.name ?? other.id) ? -1 : 1) },
];

function descending(read: (session: LiveSession) => number | string): Compare {
  return (one, other) => {
    const [left, right] = [read(one), read(other)];
    return left === right ? 0 : left < right ? 1 : -1;
  };
}

export function chooseSessions(sessions: readonly LiveSession[], filter: SessionFilter): readonly LiveSession[] {
  const { user, workspace, trust } = filter;
  const text = filter.text.toLowerCase();
  const family = filter.family === '' ? undefined : collectFamily(sessions, filter.family);
  const chosen = sessions.filter(
    (session) =>
      (family === undefined || family.has(session.id)) &&
      (user === '' || session.userId === user) &&
      (workspace === '' || session.workspaceId === workspace) &&
      (trust === '' || session.trustLevel === trust) &&
      fitsShow(session, filter.show) &&
      (text === '' || hasText(session, text)),
  );
  const { compare } = sortings.find(({ name }) => name === filter.sort) ?? {};
  return compare === undefined ? placeBelowParents(chosen) : chosen.sort(compare);
}

/** Collects the ids of a session and of its descendants. */
function collectFamily(sessions: readonly LiveSession[], id: string): ReadonlySet<string> {
  const childrenOf = groupByParent(sessions);
  const family = new Set([id]);
  // A set is visited in the order in which it grows.
  for (const each of family) for (const child of childrenOf.get(each) ?? []) family.add(child.id);
  return family;
}

/** Puts children directly below their parent, if it is in the list. */
function placeBelowParents(sessions: readonly LiveSession[]): readonly LiveSession[] {
  const childrenOf = groupByParent(sessions);
  if (childrenOf.size === 0) return sessions;
  const ids = new Set(sessions.map(({ id }) => id));
  const placed: LiveSession[] = [];
  const waiting = sessions.filter(({ parentId }) => parentId === null || !ids.has(parentId)).toReversed();
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { depth = 0 } = next;
    placed.push(next);
    const children = childrenOf.get(next.id) ?? [];
    waiting.push(...children.map((child) => ({ ...child, depth: depth + 1 })).toReversed());
  }
  return placed;
}

function groupByParent(sessions: readonly LiveSession[]): ReadonlyMap<string, readonly LiveSession[]> {
  const groups = new Map<string, LiveSession[]>();
  for (const session of sessions) {
    if (session.parentId === null) continue;
    const group = groups.get(session.parentId);
    if (group === undefined) groups.set(session.parentId, [session]);
    else group.push(session);
  }
  return groups;
}

function fitsShow(session: LiveSession, show: string): boolean {
  const { activity, parentId } = session;
  if (show === 'busy') return (activity?.underWay ?? 0) > 0;
  if (show === 'active')
    return activity !== null && (activity.underWay > 0 || activity.recent.some((count) => count > 0));
  if (show === 'errors') return (activity?.errors ?? 0) > 0;
  if (show === 'limits') return (findNearestLimit(session)?.part ?? 0) >= nearLimit;
  return show !== 'roots' || parentId === null;
}

function hasText({ id, name, userId, agentId, workspaceId, task }: LiveSession, text: string): boolean {
  return [id, name, userId, agentId, workspaceId, task].some((value) => value?.toLowerCase().includes(text) === true);
}
