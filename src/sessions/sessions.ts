import { setImmediate as nextTick } from 'node:timers/promises';
import { AmbitError } from '../errors.ts';
import { digestsEqual, hasValidChecksum, mintToken, type PresentedToken, parseToken } from '../identity/token.ts';
import type { Limits, Use } from '../stores/admission.ts';
import type { SessionRecord } from '../stores/record.ts';
import type { SessionFilter, SessionStore } from '../stores/store.ts';
import { createSessionCreation, type SessionBounds } from './create-session.ts';
import { createFamilyGrants } from './family-grants.ts';
import type { AcquiredGrant, Grant } from './grants.ts';
import { createLoadedSessions, type LoadedSessions } from './loaded-sessions.ts';
import { narrowQuotas, type Quotas } from './quotas.ts';
import {
  type CheckedDraft,
  type Restriction,
  type Session,
  type SessionEndReason,
  sessionGoneError,
  type UnloadReason,
} from './session.ts';
import { createSessionWriter } from './session-writer.ts';

const retryMs = 500;
/** The sessions whose use is read at once. A store may answer them in one turn of the event loop. */
const usesAtOnce = 50;

/**
 * Opens, finds, changes and ends sessions. The store has the records; this process has copies of those it uses, and the
 * store reports within a second when another process changes or ends one. Reading a copy needs no promise, since every
 * call does it.
 */
export interface Sessions {
  /** The caller has checked the draft against its bounds. */
  create(
    draft: CheckedDraft,
  ): Promise<{ readonly session: Session; readonly token: string; readonly record: SessionRecord }>;
  /**
   * The session of a token. UNAUTHENTICATED unless the secret is right; then the exact reason why the session is gone.
   * A promise only when the store has to be asked. `acquire` finds out whether it has expired.
   */
  verifyToken(presented: PresentedToken | string): Session | Promise<Session>;
  get(id: string): Session | undefined;
  /** The session as the store has it now. */
  load(id: string): Promise<Session | undefined>;
  record(id: string): Promise<SessionRecord | undefined>;
  /** Why a session is gone; undefined when there was none, or the store has forgotten it. */
  whyGone(id: string): Promise<SessionEndReason | undefined>;
  /** Finds a session by id, name, or a prefix of the id that fits only one. */
  find(reference: string, filter?: SessionFilter): Promise<SessionRecord | undefined>;
  list(
    filter?: SessionFilter,
    page?: { readonly after?: string; readonly limit?: number },
  ): ReturnType<SessionStore['list']>;
  loaded(): Session[];
  /**
   * Measures the use of a live session by all processes: the calls that were made, and those that have not ended. It
   * never shows fewer calls than before.
   */
  usage(id: string): Promise<Use | undefined>;
  /**
   * Reads the use of many sessions at once, in the same order; undefined for those that are gone. It does not wait for
   * other processes, so it may lack their calls of the last second.
   */
  readUses(records: readonly SessionRecord[]): Promise<(SessionUse | undefined)[]>;
  /** The limits of a session: its own or those of the configuration, whichever are lower. */
  limitsOf(record: Pick<SessionRecord, 'quotas'>): Limits;
  /**
   * Begins a request: checks that the session is live, that the loaded record is current, and that there is quota. A
   * counted request of a child also takes from the quota of its ancestors. A child whose parent is gone is ended.
   * Throws `StaleSessionError` when the record has changed; the new one is loaded then. The grant must be released.
   */
  acquire(session: Session, counted: boolean): AcquiredGrant | Promise<AcquiredGrant>;
  /** Keeps a session and its ancestors alive while a call waits. The grant must be released, as not counted. */
  acquireIdle(session: Session): Promise<AcquiredGrant>;
  /** Ends a session and its descendants. False when there was no live session. */
  end(id: string, reason?: Exclude<SessionEndReason, 'expired'>): Promise<boolean>;
  /**
   * Ends all sessions that were opened with a key of this user, as `revoked`, and returns their number. The key must be
   * unusable before. A user has few sessions, so all are listed.
   */
  endForKey(userId: string, keyId: string): Promise<number>;
  /** Restricts a session for good; wider bounds are refused. */
  restrict(id: string, change: Restriction): Promise<Session>;
  /** Issues another token for a session. When there are too many, the one unused for longest stops working. */
  issueToken(id: string): Promise<string>;
  onOpened(listener: (session: Session) => void): void;
  onEnded(listener: (session: Session, reason: UnloadReason) => void): void;
  onRestricted(listener: (session: Session, before: Session) => void): void;
  /** Unloads every session and gives back its grants. Sessions live on where the store is durable. */
  close(): Promise<void>;
}

export interface SessionUse extends Use {
  /** The part of the burst that is used up now. */
  readonly paceUsed: number;
  /** The number of its live children. */
  readonly children: number;
}

export interface SessionsOptions {
  readonly store: SessionStore;
  readonly bounds: SessionBounds;
  readonly quotas?: () => Quotas;
  /** A clock for tests, and how they wait. */
  readonly now?: () => number;
  readonly wait?: (ms: number) => Promise<void>;
}

/** Includes the first token, which is never replaced. */
export const maxTokens = 16;

export function createSessions(options: SessionsOptions): Sessions {
  const { store, bounds, quotas = () => ({}), now = () => performance.now() } = options;
  const openedListeners: ((session: Session) => void)[] = [];
  const endedListeners: ((session: Session, reason: UnloadReason) => void)[] = [];
  const restrictedListeners: ((session: Session, before: Session) => void)[] = [];
  const loaded = createLoadedSessions({
    store,
    now,
    maxSessions: bounds.maxSessions,
    quotas,
    ...(options.wait && { wait: options.wait }),
    onRestricted: (session, before) => {
      for (const listener of restrictedListeners) listener(session, before);
    },
    onLeft: (session, reason) => {
      for (const listener of endedListeners) listener(session, reason);
    },
  });
  const stopFollowing = followStore(store, loaded);
  const writer = createSessionWriter(store, loaded);

  async function load(id: string): Promise<Session | undefined> {
    const record = await store.get(id);
    return record === undefined ? undefined : loaded.loadForRequest(record);
  }

  /** The session that a token of a connection was verified for. The copy of a session is replaced, never changed. */
  const verified = new WeakMap<PresentedToken, Session>();

  function hasToken(session: Session, presented: PresentedToken): boolean {
    if (verified.get(presented) === session) return true;
    const { digest } = presented;
    const { id, tokenDigests } = session;
    for (let i = 0; i < tokenDigests.length; i++) {
      if (!digestsEqual(tokenDigests[i] as string, digest)) continue;
      if (i > 0) loaded.noteTokenUse(id, digest);
      else verified.set(presented, session);
      return true;
    }
    return false;
  }

  /** Loads the session again after its copy was unloaded between the decision and this. */
  async function acquireAfterUnload({ id, version }: Session, counted: boolean): Promise<Grant> {
    const session = await load(id);
    const grants = loaded.grantsOf(id);
    if (session === undefined || grants === undefined) throw sessionGoneError((await store.remains(id))?.reason);
    return grants.acquire(counted, version);
  }

  function acquireAlone(session: Session, counted: boolean): Grant | Promise<Grant> {
    const grants = loaded.grantsOf(session.id);
    return grants === undefined ? acquireAfterUnload(session, counted) : grants.acquire(counted, session.version);
  }

  const { acquire, acquireIdle } = createFamilyGrants({
    acquire: acquireAlone,
    load,
    get: loaded.get,
    async endOrphan({ id, parentId = '' }) {
      await writer.end(id, 'ended');
      return sessionGoneError((await store.remains(parentId))?.reason);
    },
  });

  return {
    create: createSessionCreation({ store, bounds, loaded, writer, openedListeners }),

    verifyToken(presented) {
      const given = typeof presented === 'string' ? parseToken(presented) : presented;
      const session = given.id === undefined ? undefined : loaded.get(given.id);
      return session !== undefined && hasToken(session, given) ? session : verifyTokenByStore(store, loaded, given);
    },

    get: loaded.get,
    load,
    record: (id) => store.get(id),
    whyGone: async (id) => (await store.remains(id))?.reason,

    async find(reference, filter) {
      const found = await store.find(reference, filter);
      const [record] = found;
      if (record === undefined || found.length > 1) return undefined;
      loaded.load(record);
      return record;
    },

    list: (filter, page) => store.list(filter, page),
    loaded: loaded.all,
    usage: loaded.measureUse,
    ...createUseReader(loaded, quotas),

    acquire,
    acquireIdle,

    end: (id, reason = 'ended') => writer.end(id, reason),

    async endForKey(userId, keyId) {
      let count = 0;
      for (let after: string | undefined; ; ) {
        const page = await store.list({ userId }, { limit: 1000, ...(after === undefined ? {} : { after }) });
        for (const { id } of page.sessions.filter((record) => record.keyId === keyId)) {
          if (await this.end(id, 'revoked')) count++;
        }
        if (page.next === null) return count;
        after = page.next;
      }
    },

    restrict: writer.restrict,

    async issueToken(id) {
      const { token, digest } = mintToken('ambs', id);
      await writer.change(id, ({ tokenDigests }) => {
        const [first, ...further] = tokenDigests;
        if (further.length >= maxTokens - 1) further.splice(loaded.findIdlestToken(id, further), 1);
        return { tokenDigests: [...(first === undefined ? [] : [first]), ...further, digest] };
      });
      loaded.noteTokenUse(id, digest);
      return token;
    },

    onOpened: (listener) => void openedListeners.push(listener),
    onEnded: (listener) => void endedListeners.push(listener),
    onRestricted: (listener) => void restrictedListeners.push(listener),

    async close() {
      stopFollowing();
      await loaded.close(store.capabilities.durable === 'no' ? 'closed' : 'unloaded');
    },
  };
}

function createUseReader(
  loaded: Pick<LoadedSessions, 'readUse'>,
  quotas: () => Quotas,
): Pick<Sessions, 'readUses' | 'limitsOf'> {
  const limitsOf = ({ quotas: own }: Pick<SessionRecord, 'quotas'>): Limits =>
    narrowQuotas(quotas(), own ?? undefined).session ?? {};

  async function readUse(record: SessionRecord): Promise<SessionUse | undefined> {
    const use = await loaded.readUse(record.id);
    if (use === undefined) return undefined;
    const { aheadMs, ...rest } = use;
    return { ...rest, paceUsed: Math.ceil((aheadMs * (limitsOf(record).callsPerMinute ?? 0)) / 60_000) };
  }

  return {
    limitsOf,
    async readUses(records) {
      const uses: (SessionUse | undefined)[] = [];
      for (let from = 0; from < records.length; from += usesAtOnce) {
        // Other work goes first in between: some stores answer without waiting.
        if (from > 0) await nextTick();
        uses.push(...(await Promise.all(records.slice(from, from + usesAtOnce).map(readUse))));
      }
      return uses;
    },
  };
}

/** The session that a token proves by the store: another process opened it or made the token, or the session is gone. */
async function verifyTokenByStore(
  store: SessionStore,
  loaded: LoadedSessions,
  { token, kind, id, digest }: PresentedToken,
): Promise<Session> {
  // A mistyped token is recognised without asking the store.
  if (kind !== 'ambs' || id === undefined || !hasValidChecksum(token)) throw new AmbitError('UNAUTHENTICATED');
  const record = await store.get(id);
  if (record !== undefined) {
    if (!record.tokenDigests.some((each) => digestsEqual(each, digest))) throw new AmbitError('UNAUTHENTICATED');
    return loaded.loadForRequest(record);
  }
  const remains = await store.remains(id);
  const known = remains?.record.tokenDigests.some((each) => digestsEqual(each, digest)) ?? false;
  if (!known) throw new AmbitError('UNAUTHENTICATED');
  throw sessionGoneError(remains?.reason);
}

/** Applies to loaded sessions within a second what other processes change. */
function followStore(store: SessionStore, loaded: LoadedSessions): () => void {
  /** Changed sessions that could not be read yet. */
  const unread = new Set<string>();
  let timer: NodeJS.Timeout | undefined;
  let stopped = false;

  /** Reads the session again: a change in the feed has no content. */
  async function refresh(id: string): Promise<void> {
    loaded.withdrawGrants(id);
    try {
      const record = await store.get(id);
      if (record !== undefined) loaded.load(record);
      else loaded.unload(id, (await store.remains(id))?.reason ?? 'unloaded');
    } catch {
      // The store is away. Processes of an ended session must end without another call, so this is retried.
      unread.add(id);
      if (!stopped) timer ??= setTimeout(retryUnread, retryMs).unref();
    }
  }

  function retryUnread(): void {
    timer = undefined;
    const ids = [...unread].filter((id) => loaded.get(id) !== undefined);
    unread.clear();
    for (const id of ids) void refresh(id);
  }

  const stop = store.watch((change) => {
    if (change.kind === 'lost') {
      for (const { id } of loaded.all()) void refresh(id);
    } else if (change.kind === 'ended') {
      loaded.unload(change.id, change.reason);
    } else if (change.kind === 'changed') {
      const session = loaded.get(change.id);
      if (session !== undefined && session.version < change.version) void refresh(change.id);
    }
  });
  return () => {
    stopped = true;
    clearTimeout(timer);
    stop();
  };
}
