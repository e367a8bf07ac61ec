import { effect, signal } from '@preact/signals';
import { isPaused, onEvent } from '../api/events.ts';
import { type AnswerOf, request } from '../api/request.ts';
import { signedIn } from '../sign-in/signed-in.ts';

type ListedSession = AnswerOf<'GET /api/v1/sessions'>['sessions'][number];
export type Activity = NonNullable<ListedSession['activity']>;

/** A live session, with what it does now. */
export interface LiveSession extends Omit<ListedSession, 'activity' | 'children'> {
  readonly activity: Activity | null;
  /** The calls that this console has heard of since `usage` was read. */
  readonly callsSince: number;
  readonly children: number;
  /** How many of its ancestors stand directly above it in the list. */
  readonly depth?: number;
}

/** All live sessions, the newest first. Undefined until they have been read. */
export const liveSessions = signal<readonly LiveSession[] | undefined>(undefined);
export const liveError = signal<Error | undefined>(undefined);

const byId = new Map<string, LiveSession>();
/** The ids in the order of the list. Undefined when sessions came or went: then it is made again. */
let order: readonly string[] | undefined;
const pageSize = 1000;
/** Rows are drawn again at most this often, however many events come. */
const drawEveryMs = 500;
let drawing: ReturnType<typeof setTimeout> | undefined;
let reading: Promise<void> | undefined;
/** Ids that ended while the list is being read: a page that was made before must not bring them back. */
const endedMeanwhile = new Set<string>();

/** Ids of rows whose limits and usage are not up to date: events about sessions do not tell them. */
const unread = new Set<string>();
/** The gateway reads at most this many sessions by their ids at once. */
const maxIds = 100;
let isReadingRows = false;

/** Reads all pages and replaces the list. Requests that come meanwhile share the result. */
export function reloadSessions(): Promise<void> {
  reading ??= readAll().finally(() => {
    reading = undefined;
  });
  return reading;
}

async function readAll(): Promise<void> {
  endedMeanwhile.clear();
  const found = new Map<string, LiveSession>();
  try {
    let after: string | undefined;
    do {
      const query = { include: 'activity,usage', limit: String(pageSize), ...(after === undefined ? {} : { after }) };
      const page = await request('GET /api/v1/sessions', { query });
      for (const session of page.sessions) found.set(session.id, createRow(session));
      after = page.next ?? undefined;
    } while (after !== undefined);
    liveError.value = undefined;
  } catch (error) {
    liveError.value = error as Error;
    return;
  }
  for (const id of endedMeanwhile) found.delete(id);
  byId.clear();
  unread.clear();
  for (const [id, row] of found) byId.set(id, row);
  order = undefined;
  show();
}

function createRow(session: ListedSession): LiveSession {
  const { activity = null, children = 0, ...rest } = session;
  return { ...rest, activity, children, callsSince: 0 };
}

function show(): void {
  clearTimeout(drawing);
  drawing = undefined;
  order ??= orderSessions();
  liveSessions.value = order.map((id) => byId.get(id) as LiveSession);
}

/** Counts the children of each session, and sorts the sessions. */
function orderSessions(): readonly string[] {
  const children = new Map<string, number>();
  for (const { parentId } of byId.values()) {
    if (parentId !== null) children.set(parentId, (children.get(parentId) ?? 0) + 1);
  }
  for (const [id, row] of byId) {
    const count = children.get(id) ?? 0;
    if (row.children !== count) byId.set(id, { ...row, children: count });
  }
  return [...byId.values()].sort((one, other) => (one.createdAt < other.createdAt ? 1 : -1)).map(({ id }) => id);
}

/** Shows what events have changed. Until the list has been read, rows of events alone would look like the whole list. */
function drawSoon(): void {
  drawing ??= setTimeout(() => {
    drawing = undefined;
    if (liveSessions.peek() !== undefined) show();
  }, drawEveryMs);
}

interface SessionEvent {
  readonly session?: ListedSession | { readonly id: string };
}

function applySessionEvent(type: string, { session }: SessionEvent): void {
  if (session === undefined) return;
  if (type === 'created' || type === 'restricted') {
    if (!('userId' in session)) return;
    const before = byId.get(session.id);
    byId.set(session.id, before === undefined ? createRow(session) : { ...before, ...session, ...keepLive(before) });
    unread.add(session.id);
    void readRows();
  } else {
    byId.delete(session.id);
    if (reading !== undefined) endedMeanwhile.add(session.id);
  }
  order = undefined;
  drawSoon();
}

/**
 * Reads the limits and the usage of sessions that events told of. Sessions that have ended since are not in the answer.
 * Without an answer, the rows stay without limits until the list is read again.
 */
async function readRows(): Promise<void> {
  if (isReadingRows) return;
  isReadingRows = true;
  while (unread.size > 0) {
    const ids = [...unread].slice(0, maxIds);
    for (const id of ids) unread.delete(id);
    const query = { ids: ids.join(','), include: 'activity,usage' };
    const page = await request('GET /api/v1/sessions', { query }).catch(() => undefined);
    for (const session of page?.sessions ?? []) updateRow(session);
    drawSoon();
  }
  isReadingRows = false;
}

function updateRow({ id, limits, usage = null, activity: read = null }: ListedSession): void {
  const row = byId.get(id);
  if (row === undefined) return;
  const activity = row.activity ?? read;
  const callsSince = Math.max(0, (activity?.calls ?? 0) - (read?.calls ?? 0));
  byId.set(id, { ...row, limits, usage, activity, callsSince });
}

/** Adds calls to a session and to the sessions above it: the calls of a child count for its parent too. */
function addCalls(id: string, calls: number): void {
  for (let row = byId.get(id); row !== undefined && calls > 0; row = byId.get(row.parentId ?? '')) {
    byId.set(row.id, { ...row, callsSince: row.callsSince + calls });
  }
}

function keepLive({ activity, children, callsSince }: LiveSession) {
  return { activity, children, callsSince };
}

function applyActivity(changed: readonly (Activity & { readonly id: string })[]): void {
  for (const { id, ...activity } of changed) {
    const row = byId.get(id);
    if (row === undefined) continue;
    byId.set(id, { ...row, activity });
    addCalls(id, activity.calls - (row.activity?.calls ?? 0));
  }
  if (changed.length > 0) drawSoon();
}

onEvent((type, data) => {
  if (type === 'resync') void reloadSessions();
  else if (type === 'activity') applyActivity((data as { sessions: (Activity & { id: string })[] }).sessions);
  else if (liveSessions.peek() !== undefined || reading !== undefined) applySessionEvent(type, data as SessionEvent);
});

/** Nothing of one sign-in is shown to the next. */
effect(() => {
  if (signedIn.value !== undefined) return;
  byId.clear();
  unread.clear();
  liveSessions.value = undefined;
});

const slotMs = 10_000;

/** The calls of the last five minutes as they are at this time: the counts of a silent session move on. */
export function ageRecent({ recent, recentUntil }: Activity, now: number): readonly number[] {
  const passed = Math.floor((now - Date.parse(recentUntil)) / slotMs) + 1;
  if (passed <= 0 || isPaused.peek()) return recent;
  return [...recent.slice(passed), ...new Array<number>(Math.min(passed, recent.length)).fill(0)];
}

/** Counts the calls of a session: those of all gateways when it was read, and those that this console heard of since. */
export function countCalls({ usage, callsSince, activity }: LiveSession): number {
  return usage === null || usage === undefined ? (activity?.calls ?? 0) : usage.calls + callsSince;
}
