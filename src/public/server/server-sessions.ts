import { suggestClosest } from '../../config/explain/suggest.ts';
import { workspaceSlug } from '../../config/schema/schema-parts.ts';
import { computeClientId } from '../../context/for-models/delivery-marks.ts';
import type { PolicyAdmin } from '../../context/for-models/governance.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import { createSafeLog } from '../../observability/log/safe-log.ts';
import { createStderrLog } from '../../observability/log/stderr-log.ts';
import { checkDraft, checkPermissions, checkTrust } from '../../sessions/check-fields.ts';
import type { Restriction, SessionDraft, SessionEndReason, SessionView } from '../../sessions/session.ts';
import { isSuppliedId, sessionViewOf } from '../../sessions/session.ts';
import type { SessionRecord } from '../../stores/record.ts';
import { type HandlerWrapper, type SecurableServer, wrapHandlers } from '../sdk/wrap-handlers.ts';
import {
  createConnections,
  createSelectionReader,
  type GreetingRequest,
  type SelectionReader,
  type ServerConnections,
} from './connections.ts';
import { createFindWorkspaces, readFileOptions } from './declared-workspaces.ts';
import { isGatewaySession, toPublicId } from './gateway-sessions.ts';
import { addInstructions, readClientInfo, readTexts } from './governance.ts';
import { toLibraryError } from './library-hints.ts';
import { offerToolHandlers } from './offer-tools.ts';
import { wrapInSessions } from './run-in-session.ts';
import { createRunHook, createSteadyLog, createSteadyMetrics } from './safe-hooks.ts';
import { createSessionEvents, type OpenSessionLayer, openSessionLayer, type SessionFacts } from './session-layer.ts';
import {
  maxMetadataBytes,
  type OwnOptions,
  readSettings,
  type ServerSessionsOptions,
  type ServerSettings,
} from './settings.ts';
import { findHttpSession, localCredential, toTransportSessionId } from './transport-sessions.ts';

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
  /** Policies and objectives in the store, with the option `governance`. */
  readonly policies: Omit<PolicyAdmin, 'preview' | 'previewFor'>;
  /** Says that the answers of `governance.resolve` have changed. Sessions that have the block get the new one. */
  policiesChanged(): void;
  /** The public keys that verify the signature of a policy block, as a JWK Set. */
  jwks(): Promise<{ readonly keys: readonly Readonly<Record<string, unknown>>[] }>;
  /** Ends the sessions of this process and releases the store. Later calls are refused. */
  close(): Promise<void>;
}

/** Sessions that `withSessions()` can attach to a server. */
interface AttachableSessions extends ServerSessions {
  readonly wrapper: HandlerWrapper;
  readonly connections: ServerConnections;
  readonly transport: 'stdio' | 'http' | undefined;
}

const attachables = new WeakSet<object>();

/** Creates the sessions of a server over HTTP, or sessions to watch and close. Pass them to each `withSessions()`. */
export function createServerSessions(options: ServerSessionsOptions = {}): ServerSessions {
  return checkedAttachable(options, true);
}

/**
 * Makes every tool call run inside a session, behind Ambit or alone. It covers handlers that are registered later, so
 * call it right after the server was created. Without a second argument all servers of this process share their sessions,
 * as the environment says. Over HTTP pass the result of `createServerSessions()`.
 */
export function withSessions<S extends SecurableServer>(server: S, given?: ServerSessions | OwnOptions): S {
  const attachable = toAttachable(given);
  attachable.connections.watch('server' in server ? server.server : server);
  return wrapHandlers(server, { calledAs: 'withSessions', transport: attachable.transport }, attachable.wrapper);
}

let processSessions: AttachableSessions | undefined;

function toAttachable(given: ServerSessions | OwnOptions | undefined): AttachableSessions {
  if (given !== undefined && attachables.has(given)) return given as AttachableSessions;
  if (given !== undefined) return checkedAttachable(given as OwnOptions, false);
  processSessions ??= checkedAttachable({}, true);
  return processSessions;
}

function checkedAttachable(options: ServerSessionsOptions, servesHttp: boolean): AttachableSessions {
  try {
    return createAttachable(options, servesHttp);
  } catch (error) {
    throw isAmbitError(error) ? toLibraryError(error) : error;
  }
}

function createAttachable(options: ServerSessionsOptions, servesHttp: boolean): AttachableSessions {
  const httpOnly = (['principal', 'identify', 'unknownCallers'] as const).find((name) => options[name] !== undefined);
  if (!servesHttp && httpOnly !== undefined) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `The option "${httpOnly}" is for servers over HTTP: pass it to createServerSessions().`,
    });
  }
  const settings = readSettings(options);
  const selections = createSelectionReader(settings.announceKeys);
  if (options.governance !== undefined) readTexts(options.governance);
  if (options.files) readFileOptions(options.files);
  const log = createSafeLog(createSteadyLog(options.log ?? createStderrLog()));
  const runHook = createRunHook(log);
  const metrics = createSteadyMetrics(options.metrics ?? {}, runHook);
  const findWorkspaces = createFindWorkspaces(options.workspaces, settings.local.workspace, log);
  if (settings.problem !== undefined) log.warn('environment is not valid', { error: settings.problem.message });
  const events = createSessionEvents(runHook);
  // The first call reports the failure, and may come later than it.
  if (options.store instanceof Promise) options.store.catch(() => {});
  let opening: Promise<OpenSessionLayer> | undefined;
  let closing: Promise<void> | undefined;
  let cancelCloseAtExit = () => {};

  async function openLayer(): Promise<OpenSessionLayer> {
    if (settings.problem !== undefined) throw settings.problem;
    if (closing !== undefined) throw new AmbitError('SESSION_ENDED', { what: 'The server is shutting down.' });
    // A store that cannot be opened now may be there for the next call.
    opening ??= openSessionLayer(options, { settings, findWorkspaces, events, log, metrics }).then(
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

  const connections = watchConnections({ options, settings, openLayer, getOpened: async () => opening, selections });

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
      openLayer,
      context: options.context ?? {},
      selections,
      connections,
      metrics,
      log,
      servesHttp,
      hasPolicies: options.governance !== undefined,
      offersTools: offersOwnTools(options),
      countsBytes: Object.values(options.quotas ?? {}).some((limits) => limits?.totalBytes !== undefined),
    }),
    connections,
    transport: options.context?.transport,

    open: (draft = {}) =>
      withLibraryHints(async () => {
        const { openIn } = await openLayer();
        const { record, token } = await openIn(checkNewSession(draft, settings), draft.trustLevel !== undefined);
        return { ...toPublicView(record), token };
      }),

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

    restrict: (id, change) =>
      withLibraryHints(async () => {
        const { sessions, store } = await openLayer();
        const storedId = await findId(id);
        const { trustLevel, permissions } = change;
        await sessions.restrict(storedId, {
          ...change,
          ...(trustLevel === undefined ? {} : { trustLevel: checkTrust(trustLevel) }),
          ...(permissions === undefined ? {} : { permissions: checkPermissions(permissions) }),
        });
        const record = await store.get(storedId);
        if (record === undefined) throw new AmbitError('SESSION_NOT_FOUND');
        return toPublicView(record);
      }),

    onOpened: events.opened.add,
    onEnded: events.ended.add,
    onRestricted: events.restricted.add,

    policies: createPolicyAdmin(openLayer),
    policiesChanged: () => void opening?.then(({ governance }) => governance?.invalidate()).catch(() => {}),
    async jwks() {
      return JSON.parse((await openGovernance(openLayer)).jwks()) as Awaited<ReturnType<ServerSessions['jwks']>>;
    },

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

/** The time that the answer to a handshake waits for the store. */
const greetingMs = 5000;

interface WatchParts {
  readonly options: ServerSessionsOptions;
  readonly settings: ServerSettings;
  readonly openLayer: () => Promise<OpenSessionLayer>;
  /** The session layer, if it was opened. */
  readonly getOpened: () => Promise<OpenSessionLayer | undefined>;
  readonly selections: SelectionReader;
}

/** Watches the connections of servers, for everything that handlers do not see. */
function watchConnections({ options, settings, openLayer, getOpened, selections }: WatchParts): ServerConnections {
  /** Ends the session of a connection that is over, unless it outlives connections. */
  async function endConnection(server: object, transportId: string | undefined): Promise<void> {
    const opened = await getOpened();
    if (transportId !== undefined) await opened?.sessions.end(toTransportSessionId(transportId), 'closed');
    await opened?.stdio.disconnect(server);
  }

  return createConnections({
    readAnnounced: selections.readAnnounced,
    async findOpener(source) {
      const caller = await (await openLayer()).identifyCaller(source);
      return 'principal' in caller && caller.principal.kind === 'user' ? caller.principal.userId : undefined;
    },
    async changeGreeting(answer, request, server) {
      if (options.governance === undefined || settings.startedByAmbit) return answer;
      // A client can connect while the store is away, or with a credential that nobody knows.
      const layer = await withTimeout(openLayer(), greetingMs).catch(() => undefined);
      if (layer?.governance === undefined) return answer;
      if (request.method === 'server/discover')
        await withTimeout(reconnectClient(layer, request, server), greetingMs).catch(() => {});
      return addInstructions(layer.governance, answer);
    },
    onConnect(server) {
      if (offersOwnTools(options)) offerToolHandlers(server);
    },
    // The store may be closed already, and then the sessions have been unloaded.
    onClosed: (server, transportId) => void endConnection(server, transportId).catch(() => {}),
  });

  /** Makes the policy block due again for a modern client that connects again. */
  async function reconnectClient(
    layer: OpenSessionLayer,
    { meta, source, isOverHttp }: GreetingRequest,
    server: object,
  ): Promise<void> {
    const selection = selections.read({ call: { meta } }, undefined);
    const local = isOverHttp ? undefined : await layer.stdio.find(server);
    const found =
      local === undefined
        ? source && (await findHttpSession(layer, source, selection))
        : { session: local, principal: { kind: 'local', userId: local.userId } as const, credential: localCredential };
    if (found?.principal === undefined) return;
    const { session, principal, credential } = found;
    const client = { principal, credential, hint: selection.hint, clientInfo: readClientInfo(meta) };
    await layer.governance?.reconnect({
      sessionId: session.id,
      clientId: () => computeClientId(session, client),
    });
  }
}

function offersOwnTools({ tools, files, governance }: ServerSessionsOptions): boolean {
  return tools === true || Boolean(files) || governance !== undefined;
}

function toPublicView(record: SessionRecord): SessionView {
  const view = sessionViewOf(record);
  const named = { id: view.id, name: view.name ?? undefined };
  return { ...view, id: toPublicId(named), name: isGatewaySession(named) ? null : view.name };
}

const reservedName = /^[a-z]+:/;

const draftMembers: readonly string[] = [
  'id',
  'name',
  'userId',
  'agentId',
  'workspaceId',
  'parentId',
  'trustLevel',
  'permissions',
  'metadata',
  'task',
  'quotas',
  'ttlSeconds',
];

/** Checks a draft as the gateway does. */
function checkNewSession(draft: Omit<SessionDraft, 'servers'>, { local, bounds }: ServerSettings) {
  const { name, workspaceId, trustLevel = local.trustLevel, userId = local.userId } = draft;
  const odd = Object.keys(draft).find((key) => !draftMembers.includes(key));
  if (odd !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `A session has no "${odd.slice(0, 60)}"${suggestClosest(odd, draftMembers) || '.'}`,
    });
  }
  const { maxLifetimeSeconds } = bounds;
  const { permissions } = checkDraft(draft, { maxLifetimeSeconds, metadataBytes: maxMetadataBytes });
  if (name !== undefined && reservedName.test(name)) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The name of a session must not start with a word and ":".' });
  }
  if (workspaceId !== undefined && !workspaceSlug.test(String(workspaceId))) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${String(workspaceId).slice(0, 63)}" is not the slug of a workspace.`,
    });
  }
  return { ...draft, userId, trustLevel: checkTrust(trustLevel), permissions };
}

async function withLibraryHints<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw isAmbitError(error) ? toLibraryError(error) : error;
  }
}

async function openGovernance(openLayer: () => Promise<OpenSessionLayer>) {
  const { governance } = await openLayer();
  if (governance !== undefined) return governance;
  throw new AmbitError('CONFIG_INVALID', { what: 'These sessions have no policies: set the option "governance".' });
}

function createPolicyAdmin(openLayer: () => Promise<OpenSessionLayer>): ServerSessions['policies'] {
  const openTexts = async () => (await openGovernance(openLayer)).texts;
  return {
    list: async () => (await openTexts()).policies(),
    set: async (draft) => (await openTexts()).setPolicy(draft),
    remove: async (scope, name) => (await openTexts()).removePolicy(scope, name),
    objectives: async () => (await openTexts()).objectives(),
    addObjective: async (draft) => (await openTexts()).addObjective(draft),
    removeObjective: async (id) => (await (await openTexts()).removeObjective(id)) !== undefined,
  };
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
