import { setTimeout as waitFor } from 'node:timers/promises';
import type { StoredUse, Use } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionStore } from '../stores/store.ts';
import { createGrants, type Grants, measureUse } from './grants.ts';
import { narrowQuotas, type Quotas } from './quotas.ts';
import { type Session, sessionGoneError, sessionOf, type UnloadReason } from './session.ts';

/** The sessions that this process has loaded: a bounded number of copies, the ones used last. */
export interface LoadedSessions {
  get(id: string): Session | undefined;
  all(): Session[];
  /** Loads a record; one older than the loaded one changes nothing. */
  load(record: SessionRecord): Session;
  /** Loads a record for a request that is about to begin; until then it is not unloaded. */
  loadForRequest(record: SessionRecord): Session;
  /** The grants for a request that begins; undefined when the session is not loaded. */
  grantsOf(id: string): Grants | undefined;
  /** Measures the use of a session. Waits for other processes that use it right now, for a second at most. */
  measureUse(id: string): Promise<Use | undefined>;
  /** Reads the use of a session at once, without what other processes have not reported yet. */
  readUse(id: string): Promise<PresentUse | undefined>;
  /** Withdraws the grants, since the store has a newer record. */
  withdrawGrants(id: string): void;
  unload(id: string, reason: UnloadReason): void;
  noteTokenUse(id: string, digest: string): void;
  /** The index of the token that was not used for longest. */
  findIdlestToken(id: string, digests: readonly string[]): number;
  close(reason: UnloadReason): Promise<void>;
}

/** The use of a session as this process and the store know it now. */
export interface PresentUse extends Use, Pick<StoredUse, 'aheadMs' | 'children'> {}

export interface LoadedSessionsOptions {
  readonly store: SessionStore;
  readonly now: () => number;
  readonly maxSessions: number;
  readonly quotas: () => Quotas;
  /** Waits; replaced in tests. */
  readonly wait?: (ms: number) => Promise<void>;
  onRestricted(session: Session, before: Session): void;
  onLeft(session: Session, reason: UnloadReason): void;
}

interface LoadedSession {
  session: Session;
  readonly grants: Grants;
  expectedUntil: number;
  /** The most calls that were ever shown. */
  shownCalls: number;
  /** The last use of each token but the first, by digest. */
  readonly tokenUsedAt: Map<string, number>;
}

/** Whether the bounds changed. Another token alone is no restriction. */
function isRestricted(session: Session, before: Session): boolean {
  return (['trustLevel', 'ttlSeconds', 'servers', 'permissions'] as const).some(
    (key) => String(session[key]) !== String(before[key]),
  );
}

const settleEveryMs = 200;
/** The time for a request to begin. One that is refused before never begins. */
const expectedMs = 2000;
/** Longer than the timeout of any request to the store. */
const lateAnswerMs = 5000;
/** The intervals at which the use of a session is read until other processes have reported theirs. */
const [minPollMs, maxPollMs] = [5, 50];
/** A process reports the calls of a grant when it is over, and after that each end of a call. */
const [firstReportMs, nextReportMs] = [1200, settleEveryMs + maxPollMs];

export function createLoadedSessions(options: LoadedSessionsOptions): LoadedSessions {
  const { store, now, maxSessions } = options;
  const loaded = new Map<string, LoadedSession>();
  /** Sessions whose grants need settling. */
  const active = new Set<LoadedSession>();
  /** The time at which sessions ended. A record that was read before and arrives later must not load them again. */
  const goneSince = new Map<string, number>();
  let closed = false;

  function addSession(session: Session): LoadedSession {
    const entry: LoadedSession = {
      session,
      expectedUntil: 0,
      shownCalls: 0,
      tokenUsedAt: new Map(),
      grants: createGrants({
        store,
        now,
        quotas: () => narrowQuotas(options.quotas(), entry.session.quotas),
        session: () => entry.session,
        onOutdated: (record) => void loadRecord(record),
        onGone: (why) => {
          const reason = why === 'missing' ? 'ended' : why;
          unloadSession(session.id, reason);
          return sessionGoneError(reason);
        },
        onActive: () => void active.add(entry),
        reclaimIdleGrants: () => reclaim(entry.session),
      }),
    };
    if (closed || isGone(session.id)) {
      void entry.grants.close(sessionGoneError(closed ? 'unloaded' : 'ended'));
      return entry;
    }
    loaded.set(session.id, entry);
    if (loaded.size > maxSessions) unloadIdle(session.id);
    return entry;
  }

  function isGone(id: string): boolean {
    const at = goneSince.get(id);
    return at !== undefined && now() - at < lateAnswerMs;
  }

  /** Gives back idle grants, so that no call of the same user or workspace is refused because of them. */
  async function reclaim({ userId, workspaceId }: Session): Promise<boolean> {
    const related = [...active].filter(
      ({ session }) => session.userId === userId || (workspaceId !== undefined && session.workspaceId === workspaceId),
    );
    const given = related.flatMap(({ grants }) => grants.giveBackIdle());
    await Promise.all(given);
    return given.length > 0;
  }

  /** Unloads several sessions at once, since sorting them is not worth it for one. */
  function unloadIdle(newcomer?: string): void {
    const at = now();
    const idle = [...loaded.values()].filter(
      ({ grants, expectedUntil }) => grants.inFlight() === 0 && at >= expectedUntil,
    );
    idle.sort((a, b) => a.grants.lastUseAt() - b.grants.lastUseAt());
    const surplus = loaded.size - maxSessions + Math.floor(maxSessions / 10);
    for (const { session } of idle.slice(0, surplus))
      if (session.id !== newcomer) unloadSession(session.id, 'unloaded');
  }

  function loadRecord(record: SessionRecord): Session {
    const entry = loaded.get(record.id);
    if (entry === undefined) return addSession(sessionOf(record)).session;
    const before = entry.session;
    if (record.version <= before.version) return before;
    entry.session = sessionOf(record);
    entry.grants.withdraw();
    if (isRestricted(entry.session, before)) options.onRestricted(entry.session, before);
    return entry.session;
  }

  function unloadSession(id: string, reason: UnloadReason): void {
    if (reason !== 'unloaded') goneSince.set(id, now());
    const entry = loaded.get(id);
    if (entry === undefined) return;
    loaded.delete(id);
    void entry.grants.close(sessionGoneError(reason));
    options.onLeft(entry.session, reason);
  }

  async function measureSession(id: string): Promise<Use | undefined> {
    const use = await measureWhenReported(id, options, () => loaded.get(id)?.grants);
    const entry = loaded.get(id);
    if (use === undefined || entry === undefined) return use;
    // A call that was shown once stays counted, whatever becomes of its grant.
    entry.shownCalls = Math.max(entry.shownCalls, use.calls);
    return { ...use, calls: entry.shownCalls };
  }

  const timer = setInterval(() => {
    for (const entry of active) if (!entry.grants.settle()) active.delete(entry);
    // Sessions that were busy when the limit was reached may be idle now.
    if (loaded.size > maxSessions) unloadIdle();
    // The map is ordered by time.
    for (const id of goneSince.keys()) {
      if (isGone(id)) break;
      goneSince.delete(id);
    }
  }, settleEveryMs).unref();

  return {
    get: (id) => loaded.get(id)?.session,
    all: () => [...loaded.values()].map(({ session }) => session),
    load: loadRecord,
    loadForRequest(record) {
      const session = loadRecord(record);
      const entry = loaded.get(record.id);
      if (entry !== undefined) entry.expectedUntil = now() + expectedMs;
      return session;
    },
    grantsOf(id) {
      const entry = loaded.get(id);
      if (entry !== undefined) entry.expectedUntil = 0;
      return entry?.grants;
    },
    measureUse: measureSession,
    async readUse(id) {
      const stored = await store.usage(id);
      if (stored === undefined) return undefined;
      const { aheadMs, children } = stored;
      return { ...measureUse(stored, loaded.get(id)?.grants.held() ?? []).use, aheadMs, children };
    },
    withdrawGrants: (id) => loaded.get(id)?.grants.withdraw(),
    unload: unloadSession,
    noteTokenUse: (id, digest) => void loaded.get(id)?.tokenUsedAt.set(digest, now()),
    findIdlestToken(id, digests) {
      const use = (digest: string) => loaded.get(id)?.tokenUsedAt.get(digest) ?? 0;
      return digests.indexOf(digests.reduce((a, b) => (use(a) <= use(b) ? a : b)));
    },
    async close(reason) {
      clearInterval(timer);
      closed = true;
      const grants = [...loaded.values(), ...active].map((entry) => entry.grants);
      for (const id of [...loaded.keys()]) unloadSession(id, reason);
      await Promise.all(grants.map((each) => each.close(sessionGoneError(reason))));
    },
  };
}

/** Measures the use of a session when all processes have reported the calls that were made until now. */
async function measureWhenReported(
  id: string,
  { store, wait = waitFor }: Pick<LoadedSessionsOptions, 'store' | 'wait'>,
  findGrants: () => Grants | undefined,
): Promise<Use | undefined> {
  let awaited: ReadonlySet<string> | undefined;
  let pollMs = minPollMs;
  await findGrants()?.report();
  for (let waitedMs = 0; ; waitedMs += pollMs) {
    const stored = await store.usage(id);
    if (stored === undefined) return undefined;
    const { use, unknown, areOthersBusy } = measureUse(stored, findGrants()?.held() ?? []);
    // Calls that began since then are not waited for.
    awaited = new Set(unknown.filter((lease) => awaited === undefined || awaited.has(lease)));
    const neededMs = awaited.size > 0 ? firstReportMs : areOthersBusy ? nextReportMs : 0;
    if (waitedMs >= neededMs) return use;
    pollMs = Math.min(pollMs * 2, maxPollMs);
    await wait(pollMs);
  }
}
