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
}

const nearLimit = 0.8;

export function readSessionFilter(): SessionFilter {
  const [text, user, workspace, trust, show, sort] = ['text', 'user', 'workspace', 'trust', 'show', 'sort'].map(
    readQuery,
  ) as [string, string, string, string, string, string];
  return { text, user, workspace, trust, show, sort };
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
  const chosen = sessions.filter(
    (session) =>
      (user === '' || session.userId === user) &&
      (workspace === '' || session.workspaceId === workspace) &&
      (trust === '' || session.trustLevel === trust) &&
      fitsShow(session, filter.show) &&
      (text === '' || hasText(session, text)),
  );
  const { compare } = sortings.find(({ name }) => name === filter.sort) ?? {};
  return compare === undefined ? chosen : chosen.sort(compare);
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
