import { AmbitError } from '../../errors.ts';
import { checkMetadata } from '../../sessions/check-metadata.ts';
import { checkPermissions } from '../../sessions/check-permissions.ts';
import { isGivenId } from '../../sessions/given-id.ts';
import type { Narrowing, SessionDraft } from '../../sessions/session.ts';
import { type Around, type SecurableServer, wrapHandlers } from '../sdk/wrap-handlers.ts';
import { type OwnOptions, type ServerSessionsOptions, settingsOf } from './options.ts';
import { aroundCalls } from './run-in-session.ts';
import { createEvents, type OpenHouse, openHouse } from './session-layer.ts';
import { type EndReason, type SessionFacts, type SessionView, shownRecord } from './session-views.ts';

let ofProcess: Layer | undefined;

const open = new Set<() => Promise<void>>();

/** The sessions of a server, for as many instances of it as there are. */
export interface ServerSessions {
  /** Opens one before its first call; its token is shown only here. */
  open(draft?: Omit<SessionDraft, 'servers'>): Promise<SessionView & { readonly token: string }>;
  /** Live ones, the oldest first. */
  list(filter?: { readonly userId?: string }): Promise<SessionView[]>;
  /** Calls under way are answered at once; false when there was no such session. */
  end(id: string): Promise<boolean>;
  /** Makes it narrower, for good. */
  restrict(id: string, change: Omit<Narrowing, 'servers'>): Promise<SessionView>;
  /** Each gives back what stops it. */
  onOpened(listener: (session: SessionFacts) => void): () => void;
  onEnded(listener: (session: SessionFacts, reason: EndReason) => void): () => void;
  onRestricted(listener: (session: SessionFacts) => void): () => void;
  /** Ends what was opened for this process only, and lets go of the store. Calls are refused from then on. */
  close(): Promise<void>;
}

export interface Layer extends ServerSessions {
  readonly around: Around;
  readonly transport: 'stdio' | 'http' | undefined;
}

const layers = new WeakSet<object>();

export function isLayer(given: object): given is Layer {
  return layers.has(given);
}

/** Sessions for a server over HTTP, or wherever they are to be watched and closed: made once, given to each `withSessions()`. */
export function createServerSessions(options: ServerSessionsOptions = {}): ServerSessions {
  return createLayer(options, true);
}

export function createLayer(options: ServerSessionsOptions, servesHttp: boolean): Layer {
  const settings = settingsOf(options);
  const events = createEvents();
  // Said with the first call, which may come later than the failure.
  if (options.store instanceof Promise) options.store.catch(() => {});
  let opening: Promise<OpenHouse> | undefined;
  let closing: Promise<void> | undefined;
  let forget = () => {};

  function house(): Promise<OpenHouse> {
    if (closing !== undefined) throw new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' });
    // A store that cannot be opened now may be there for the next call.
    opening ??= openHouse(options, settings, events).then(
      (opened) => {
        forget = closeAtExit(layer.close);
        return opened;
      },
      (error: unknown) => {
        opening = undefined;
        throw error;
      },
    );
    return opening;
  }

  /** By the id that is known outside. */
  async function found(id: string): Promise<string> {
    const { store } = await house();
    const records = isGivenId(id) ? [...(await store.find(id)), ...(await store.find(`ambit:${id}`))] : [];
    const record = records.find((each) => shownRecord(each).id === id);
    if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
    return record.id;
  }

  const layer: Layer = {
    around: aroundCalls({
      house: async () => house(),
      context: options.context ?? {},
      servesHttp,
      offersTools: options.tools === true,
      countsBytes: Object.values(options.quotas ?? {}).some(({ totalBytes }) => totalBytes !== undefined),
    }),
    transport: options.context?.transport,

    async open(draft = {}) {
      const { sessions } = await house();
      const { record, token } = await sessions.create(checked(draft, settings));
      return { ...shownRecord(record), token };
    },

    async list(filter = {}) {
      const { sessions } = await house();
      const views: SessionView[] = [];
      for (let after: string | null | undefined; after !== null; ) {
        const page = await sessions.list(filter, { limit: 1000, ...(after === undefined ? {} : { after }) });
        views.push(...page.sessions.map(shownRecord));
        after = page.next;
      }
      return views;
    },

    async end(id) {
      const { sessions } = await house();
      try {
        return await sessions.end(await found(id));
      } catch (error) {
        if (error instanceof AmbitError && error.code === 'SESSION_NOT_FOUND') return false;
        throw error;
      }
    },

    async restrict(id, change) {
      const { sessions, store } = await house();
      const own = await found(id);
      await sessions.restrict(own, change);
      const record = await store.get(own);
      if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      return shownRecord(record);
    },

    onOpened: events.opened.add,
    onEnded: events.ended.add,
    onRestricted: events.restricted.add,

    close() {
      closing ??= (async () => {
        const opened = await opening?.catch(() => undefined);
        forget();
        await opened?.close();
      })();
      return closing;
    },
  };
  layers.add(layer);
  return layer;
}

const fixedName = /^[a-z]+:/;

function checked(draft: Omit<SessionDraft, 'servers'>, { local, bounds }: ReturnType<typeof settingsOf>) {
  const { id, name, ttlSeconds } = draft;
  if (id !== undefined && !isGivenId(id)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'A session id has 8 to 64 characters of a-z, 0-9 and "-".' });
  }
  if (name !== undefined && fixedName.test(name)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The name of a session does not begin with a word and ":".' });
  }
  if (ttlSeconds !== undefined && ttlSeconds > bounds.maxLifetimeSeconds) {
    throw new AmbitError('REQUEST_INVALID', { what: `The ttl is at most ${bounds.maxLifetimeSeconds} s.` });
  }
  checkMetadata(draft.metadata, mostMetadataBytes);
  const { trustLevel = local.trustLevel, userId = local.userId } = draft;
  return { ...draft, userId, trustLevel, permissions: checkPermissions(draft.permissions ?? []) };
}

const mostMetadataBytes = 10_240;

/** A session that was opened for this process must not outlive it, whether its author thinks of closing or not. */
function closeAtExit(close: () => Promise<void>): () => void {
  if (open.size === 0) process.once('beforeExit', closeAll);
  open.add(close);
  return () => {
    open.delete(close);
    if (open.size === 0) process.off('beforeExit', closeAll);
  };
}

function closeAll(): void {
  for (const close of [...open]) void close();
}

/**
 * Makes every call of a tool that is registered from now on run inside a session, behind Ambit or alone. Call it right
 * after the server was made. Without a second argument all servers of this process share their sessions, as the
 * environment says; over HTTP give what `createServerSessions()` made.
 */
export function withSessions<S extends SecurableServer>(server: S, given?: ServerSessions | OwnOptions): S {
  const layer = given === undefined ? sharedLayer() : isLayer(given) ? given : createLayer(given as OwnOptions, false);
  return wrapHandlers(server, { by: 'withSessions', transport: layer.transport }, layer.around);
}

function sharedLayer(): Layer {
  ofProcess ??= createLayer({}, true);
  return ofProcess;
}
