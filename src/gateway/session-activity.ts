import { copyText } from '../lib/text/copy-text.ts';
import { readToolName } from '../upstreams/access/tool-access.ts';
import { allServers, type Exchange, type JournalDraft } from './exchange.ts';

/** The work of one session in this process, for people who watch it. */
export interface SessionActivity {
  /** The calls of tools that have ended, refused ones too. */
  readonly calls: number;
  /** The calls among them that did not succeed. */
  readonly errors: number;
  readonly underWay: number;
  /** The call under way that started last. */
  readonly current: { readonly server: string; readonly tool: string; readonly since: string } | null;
  /** The time at which the last call started or ended. */
  readonly lastCallAt: string | null;
  /** The number of calls that ended in each 10 s of the last 5 minutes, the oldest first. */
  readonly recent: readonly number[];
  /** The end of the last 10 s of `recent`. With it, a reader shifts the numbers of a session that is silent. */
  readonly recentUntil: string;
}

/** A call under way. Its server and its tool are read from the exchange only when somebody looks. */
export interface TrackedCall {
  readonly session: TrackedSession;
  readonly exchange: Exchange;
  readonly since: number;
  previous: TrackedCall | undefined;
  next: TrackedCall | undefined;
}

export interface TrackedSession {
  readonly id: string;
  calls: number;
  errors: number;
  underWay: number;
  /** The call that started last. The calls before it follow by `previous`. */
  newest: TrackedCall | undefined;
  lastCallAt: number;
  /** The counts of the last slots, as a ring: slot n has the place n modulo the length. */
  readonly recent: Uint32Array;
  recentSlot: number;
  /** The number of the last change to this session. */
  change: number;
}

/**
 * Tracks what the sessions do in this process. A call costs some tenths of a microsecond. A session without a call costs
 * nothing, and nothing runs while nobody looks.
 */
export interface ActivityTracker {
  /** Begins a call that was admitted. The result must be given to `end`, once. */
  begin(sessionId: string, exchange: Exchange): TrackedCall;
  end(call: TrackedCall): void;
  /** Counts a call that has ended or was refused. If it was never begun, its session is tracked only if `isLive`. */
  count(entry: JournalDraft, isError: boolean, isLive: boolean): void;
  forget(sessionId: string): void;
  /** Undefined for a session that has made no call in this process. */
  get(sessionId: string): SessionActivity | undefined;
  /** The number of the last change to any session. */
  lastChange(): number;
  /**
   * Lists the sessions that changed after this change, at most so many: those first that changed first. The result names
   * the change up to which they are listed.
   */
  changedSince(
    change: number,
    most: number,
  ): { readonly sessions: readonly (SessionActivity & { readonly id: string })[]; readonly change: number };
  /** Counts the calls of all sessions that have ended. */
  totalCalls(): number;
}

const slotMs = 10_000;
const slotCount = 30;
const maxNameLength = 200;
const maxTracked = 10_000;
/** The share of sessions that is forgotten at once when there are too many, since sorting them for one is not worth it. */
const droppedShare = 0.1;

export function createActivityTracker(options: {
  readonly maxSessions: number;
  readonly now?: () => number;
}): ActivityTracker {
  const { now = Date.now } = options;
  const most = Math.max(1, Math.min(options.maxSessions, maxTracked));
  const tracked = new Map<string, TrackedSession>();
  let lastChange = 0;
  let total = 0;

  function track(id: string): TrackedSession {
    const known = tracked.get(id);
    if (known !== undefined) return known;
    const slots = { recent: new Uint32Array(slotCount), recentSlot: 0 };
    const fresh = { id, calls: 0, errors: 0, underWay: 0, newest: undefined, lastCallAt: 0, ...slots, change: 0 };
    tracked.set(id, fresh);
    if (tracked.size > most) dropOldest(id);
    return fresh;
  }

  /** Forgets the sessions whose last call is the longest ago. */
  function dropOldest(newcomer: string): void {
    const idle = [...tracked.values()].filter(({ id, underWay }) => underWay === 0 && id !== newcomer);
    idle.sort((one, other) => one.lastCallAt - other.lastCallAt);
    for (const { id } of idle.slice(0, Math.max(1, Math.floor(most * droppedShare)))) tracked.delete(id);
  }

  function describe(session: TrackedSession, at: number): SessionActivity {
    const { calls, errors, underWay, newest, lastCallAt } = session;
    const slot = Math.floor(at / slotMs);
    // The server of a call is not known yet, so the session counts as changed until it is.
    if (newest !== undefined && !isRouted(newest.exchange)) session.change = ++lastChange;
    return {
      calls,
      errors,
      underWay,
      current: newest === undefined ? null : describeCall(newest),
      lastCallAt: lastCallAt === 0 ? null : new Date(lastCallAt).toISOString(),
      recent: readRecent(session, slot),
      recentUntil: new Date((slot + 1) * slotMs).toISOString(),
    };
  }

  return {
    begin(sessionId, exchange) {
      const session = track(sessionId);
      const since = now();
      const previous = session.newest;
      // A session that ends during the call is forgotten, and the call is counted in vain.
      exchange.entry.tracked = session;
      const call: TrackedCall = { session, exchange, since, previous, next: undefined };
      if (previous !== undefined) previous.next = call;
      session.newest = call;
      session.underWay++;
      session.lastCallAt = since;
      session.change = ++lastChange;
      return call;
    },

    end({ session, previous, next }) {
      if (previous !== undefined) previous.next = next;
      if (next === undefined) session.newest = previous;
      else next.previous = previous;
      session.underWay--;
      session.change = ++lastChange;
    },

    count({ tracked: begun, sessionId }, isError, isLive) {
      total++;
      const session = begun ?? (isLive && sessionId !== undefined ? track(sessionId) : undefined);
      if (session === undefined) return;
      const at = now();
      session.calls++;
      if (isError) session.errors++;
      session.lastCallAt = at;
      addRecent(session, Math.floor(at / slotMs));
      session.change = ++lastChange;
    },

    forget: (sessionId) => void tracked.delete(sessionId),

    get(sessionId) {
      const session = tracked.get(sessionId);
      return session && describe(session, now());
    },

    lastChange: () => lastChange,

    changedSince(change, most) {
      if (lastChange === change) return { sessions: [], change };
      const at = now();
      let upTo = lastChange;
      let changed = [...tracked.values()].filter((session) => session.change > change);
      if (changed.length > most) {
        changed = changed.sort((one, other) => one.change - other.change).slice(0, most);
        upTo = changed.at(-1)?.change ?? change;
      }
      return { sessions: changed.map((session) => ({ id: session.id, ...describe(session, at) })), change: upTo };
    },

    totalCalls: () => total,
  };
}

/** Adds a call to a slot. The slots that have passed without a call since the last one are emptied. */
function addRecent(session: TrackedSession, slot: number): void {
  const { recent, recentSlot } = session;
  if (slot > recentSlot) {
    const first = Math.max(recentSlot + 1, slot - slotCount + 1);
    for (let passed = first; passed <= slot; passed++) recent[passed % slotCount] = 0;
    session.recentSlot = slot;
  }
  const place = slot % slotCount;
  recent[place] = (recent[place] as number) + 1;
}

/** Reads the counts of the last slots up to this one. The ring knows none that is newer than its last call. */
function readRecent({ recent, recentSlot }: TrackedSession, slot: number): number[] {
  return Array.from({ length: slotCount }, (_, index) => {
    const wanted = slot - slotCount + 1 + index;
    return wanted > recentSlot || wanted <= recentSlot - slotCount ? 0 : (recent[wanted % slotCount] as number);
  });
}

function isRouted({ server, entry }: Exchange): boolean {
  return server !== allServers || entry.upstream !== undefined;
}

function describeCall({ exchange, since }: TrackedCall): NonNullable<SessionActivity['current']> {
  const { server, entry, message } = exchange;
  const tool = entry.upstreamName ?? readToolName(message) ?? '';
  return { server: entry.upstream ?? server, tool: shortenName(tool), since: new Date(since).toISOString() };
}

/** Shortens a name that an agent chose, without cutting a character in two. */
function shortenName(name: string): string {
  return name.length <= maxNameLength ? name : copyText(name.slice(0, maxNameLength).replace(/\p{Surrogate}/gu, ''));
}
