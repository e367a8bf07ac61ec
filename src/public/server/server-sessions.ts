import { AmbitError } from '../../errors.ts';
import { checkMetadata, checkPermissions } from '../../sessions/check-fields.ts';
import type { Restriction, SessionDraft, SessionEndReason, SessionView } from '../../sessions/session.ts';
import { isSuppliedId, sessionViewOf } from '../../sessions/session.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { type HandlerWrapper, type SecurableServer, wrapHandlers } from '../sdk/wrap-handlers.ts';
import { isGatewaySession, toPublicId } from './gateway-sessions.ts';
import type { OwnOptions, ServerSessionsOptions } from './options.ts';
import { wrapInSessions } from './run-in-session.ts';
import { createSessionEvents, type OpenSessionLayer, openSessionLayer, type SessionFacts } from './session-layer.ts';
import { readSettings } from './settings.ts';

/** The sessions of a server, shared by all of its instances. */
export interface ServerSessions {
  /** Opens a session before its first call. The token is returned only here. */
  open(draft?: Omit<SessionDraft, 'servers'>): Promise<SessionView & { readonly token: string }>;
  /** Lists live sessions, the oldest first. */
  list(filter?: { readonly userId?: string }): Promise<SessionView[]>;
  /** Ends a session and answers its running calls at once; false if there was no such session. */
  end(id: string): Promise<boolean>;
  /** Restricts a session, for good. */
  restrict(id: string, change: Omit<Restriction, 'servers'>): Promise<SessionView>;
  /** Each returns a function that removes the listener. */
  onOpened(listener: (session: SessionFacts) => void): () => void;
  onEnded(listener: (session: SessionFacts, reason: SessionEndReason) => void): () => void;
  onRestricted(listener: (session: SessionFacts) => void): () => void;
  /** Ends the sessions of this process and releases the store. Later calls are refused. */
  close(): Promise<void>;
}

/** Sessions that `withSessions()` can attach to a server. */
interface AttachableSessions extends ServerSessions {
  readonly wrapper: HandlerWrapper;
  readonly transport: 'stdio' | 'http' | undefined;
}

const attachables = new WeakSet<object>();

/** Creates the sessions of a server over HTTP, or sessions to watch and close. Pass them to each `withSessions()`. */
export function createServerSessions(options: ServerSessionsOptions = {}): ServerSessions {
  return createAttachable(options, true);
}

/**
 * Makes every tool call run inside a session, behind Ambit or alone. It covers handlers that are registered later, so
 * call it right after the server was created. Without a second argument all servers of this process share their sessions,
 * as the environment says. Over HTTP pass the result of `createServerSessions()`.
 */
export function withSessions<S extends SecurableServer>(server: S, given?: ServerSessions | OwnOptions): S {
  const attachable = toAttachable(given);
  return wrapHandlers(server, { calledAs: 'withSessions', transport: attachable.transport }, attachable.wrapper);
}

let processSessions: AttachableSessions | undefined;

function toAttachable(given: ServerSessions | OwnOptions | undefined): AttachableSessions {
  if (given !== undefined && attachables.has(given)) return given as AttachableSessions;
  if (given !== undefined) return createAttachable(given as OwnOptions, false);
  processSessions ??= createAttachable({}, true);
  return processSessions;
}

function createAttachable(options: ServerSessionsOptions, servesHttp: boolean): AttachableSessions {
  const settings = readSettings(options);
  const events = createSessionEvents();
  // The first call reports the failure, and may come later than it.
  if (options.store instanceof Promise) options.store.catch(() => {});
  let opening: Promise<OpenSessionLayer> | undefined;
  let closing: Promise<void> | undefined;
  let cancelCloseAtExit = () => {};

  function openLayer(): Promise<OpenSessionLayer> {
    if (closing !== undefined) throw new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' });
    // A store that cannot be opened now may be there for the next call.
    opening ??= openSessionLayer(options, settings, events).then(
      (opened) => {
        cancelCloseAtExit = closeAtExit(attachable.close);
        return opened;
      },
      (error: unknown) => {
        opening = undefined;
        throw error;
      },
    );
    return opening;
  }

  /** Finds the id in the store by the id that callers know. */
  async function findId(id: string): Promise<string> {
    const { store } = await openLayer();
    const records = isSuppliedId(id) ? [...(await store.find(id)), ...(await store.find(`ambit:${id}`))] : [];
    const record = records.find((each) => toPublicView(each).id === id);
    if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
    return record.id;
  }

  const attachable: AttachableSessions = {
    wrapper: wrapInSessions({
      openLayer: async () => openLayer(),
      context: options.context ?? {},
      servesHttp,
      offersTools: options.tools === true,
      countsBytes: Object.values(options.quotas ?? {}).some(({ totalBytes }) => totalBytes !== undefined),
    }),
    transport: options.context?.transport,

    async open(draft = {}) {
      const { sessions } = await openLayer();
      const { record, token } = await sessions.create(checkDraft(draft, settings));
      return { ...toPublicView(record), token };
    },

    async list(filter = {}) {
      const { sessions } = await openLayer();
      const views: SessionView[] = [];
      for (let after: string | null | undefined; after !== null; ) {
        const page = await sessions.list(filter, { limit: 1000, ...(after === undefined ? {} : { after }) });
        views.push(...page.sessions.map(toPublicView));
        after = page.next;
      }
      return views;
    },

    async end(id) {
      const { sessions } = await openLayer();
      try {
        return await sessions.end(await findId(id));
      } catch (error) {
        if (error instanceof AmbitError && error.code === 'SESSION_NOT_FOUND') return false;
        throw error;
      }
    },

    async restrict(id, change) {
      const { sessions, store } = await openLayer();
      const storedId = await findId(id);
      await sessions.restrict(storedId, change);
      const record = await store.get(storedId);
      if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
      return toPublicView(record);
    },

    onOpened: events.opened.add,
    onEnded: events.ended.add,
    onRestricted: events.restricted.add,

    close() {
      closing ??= (async () => {
        const opened = await opening?.catch(() => undefined);
        cancelCloseAtExit();
        await opened?.close();
      })();
      return closing;
    },
  };
  attachables.add(attachable);
  return attachable;
}

function toPublicView(record: SessionRecord): SessionView {
  const view = sessionViewOf(record);
  const named = { id: view.id, name: view.name ?? undefined };
  return { ...view, id: toPublicId(named), name: isGatewaySession(named) ? null : view.name };
}

const maxMetadataBytes = 10_240;
const reservedName = /^[a-z]+:/;

function checkDraft(draft: Omit<SessionDraft, 'servers'>, { local, bounds }: ReturnType<typeof readSettings>) {
  const { id, name, ttlSeconds } = draft;
  if (id !== undefined && !isSuppliedId(id)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'A session id has 8 to 64 characters of a-z, 0-9 and "-".' });
  }
  if (name !== undefined && reservedName.test(name)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The name of a session must not start with a word and ":".' });
  }
  if (ttlSeconds !== undefined && ttlSeconds > bounds.maxLifetimeSeconds) {
    throw new AmbitError('REQUEST_INVALID', { what: `The ttl must be at most ${bounds.maxLifetimeSeconds} s.` });
  }
  checkMetadata(draft.metadata, maxMetadataBytes);
  const { trustLevel = local.trustLevel, userId = local.userId } = draft;
  return { ...draft, userId, trustLevel, permissions: checkPermissions(draft.permissions ?? []) };
}

const closersAtExit = new Set<() => Promise<void>>();

/** Closes sessions with the process, also if the author of the server forgets to. */
function closeAtExit(close: () => Promise<void>): () => void {
  if (closersAtExit.size === 0) process.once('beforeExit', closeAllAtExit);
  closersAtExit.add(close);
  return () => {
    closersAtExit.delete(close);
    if (closersAtExit.size === 0) process.off('beforeExit', closeAllAtExit);
  };
}

function closeAllAtExit(): void {
  for (const close of [...closersAtExit]) void close();
}
