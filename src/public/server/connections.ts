import { randomUUID } from 'node:crypto';
import { AmbitError } from '../../errors.ts';
import type { DeliveryListener } from '../../protocol/channel.ts';
import {
  type AnnouncedWorkspace,
  contradictory,
  createWorkspaceReader,
  readChosenSession,
  type SelectingRequest,
  sessionKeys,
} from '../../protocol/client-selection.ts';
import { readShape } from '../../protocol/json/scan.ts';
import { type CallHeaders, type IncomingCall, isObject } from '../sdk/call.ts';
import { type CredentialSource, readBearer } from './identify-caller.ts';

type RequestId = string | number;

/** The transport of the official SDK, in both its versions, as far as it is watched here. */
interface WatchedTransport {
  onmessage?: ((...given: unknown[]) => void) | undefined;
  onclose?: (() => void) | undefined;
  onerror?: ((...given: unknown[]) => void) | undefined;
  send(...given: unknown[]): Promise<unknown>;
  readonly sessionId?: string | undefined;
}

/** A server of the official SDK that can be connected. */
export interface ConnectableServer {
  connect?: (transport: never) => Promise<void>;
}

/** One connection of a server: a pipe, a transport session, or a single request over HTTP. */
export interface Connection {
  /** Set by the handshake, with a new value for each. Undefined in the modern era. */
  readonly handshakeId: string | undefined;
  /** The workspace that the client announced in the handshake. */
  readonly announced: AnnouncedWorkspace;
  readonly isClosed: boolean;
  /** The user of the handshake, if it had a credential of a known user. */
  readonly opener: Promise<string | undefined> | undefined;
  /** Tells the listener whether the answer to a request was sent. The SDK does not answer a cancelled request. */
  watchAnswer(id: RequestId, signals: AnswerSignals, listener: DeliveryListener): void;
}

export interface AnswerSignals {
  /** Aborted when the client cancels the request. */
  readonly cancelled: AbortSignal | undefined;
  /** Aborted when the HTTP request of the client is gone, if the SDK tells. */
  readonly gone: AbortSignal | undefined;
}

/** A request that opens a connection: `initialize` or `server/discover`. */
export interface GreetingRequest {
  readonly method: string;
  readonly meta: unknown;
  /** Undefined if the request has no credential. */
  readonly source: CredentialSource | undefined;
  readonly isOverHttp: boolean;
}

export interface ConnectionHooks {
  readAnnounced(meta: unknown): AnnouncedWorkspace;
  /** Finds the user of a handshake; undefined if unknown. */
  findOpener(source: CredentialSource): Promise<string | undefined>;
  /** Changes the answer to `initialize` or `server/discover`. */
  changeGreeting(answer: object, request: GreetingRequest, server: object): Promise<object>;
  /** Called before the server is connected, when all its handlers are registered. */
  onConnect(server: object): void;
  onClosed(server: object, transportId: string | undefined): void;
}

export interface ServerConnections {
  /** Watches the connections of a server from now on. */
  watch(server: object): void;
  /** The current connection of a server; undefined if it was connected in a way that is not watched. */
  of(server: object): Connection | undefined;
}

/**
 * Watches the messages of servers, because the SDK tells handlers neither what was in the handshake, nor whether an
 * answer was sent, nor when the client has left.
 */
export function createConnections(hooks: ConnectionHooks): ServerConnections {
  const current = new WeakMap<object, Connection>();
  return {
    of: (server) => current.get(server),
    watch(server) {
      const connectable = server as ConnectableServer;
      const connect = connectable.connect?.bind(server) as ((transport: unknown) => Promise<void>) | undefined;
      if (connect === undefined) return;
      connectable.connect = async (transport: unknown) => {
        hooks.onConnect(server);
        const before = current.get(server);
        const isCurrent = () => current.get(server) === connection;
        const connection = watchTransport(transport as WatchedTransport, {
          ...hooks,
          changeGreeting: (answer, request) => hooks.changeGreeting(answer, request, server),
          // The server may refuse this transport because it is connected to another one.
          onClosed: (transportId) => void (isCurrent() && hooks.onClosed(server, transportId)),
        });
        current.set(server, connection);
        try {
          await connect(transport);
        } catch (error) {
          if (before !== undefined && isCurrent()) current.set(server, before);
          throw error;
        }
      };
    },
  };
}

interface TransportHooks extends Pick<ConnectionHooks, 'readAnnounced' | 'findOpener'> {
  changeGreeting(answer: object, request: GreetingRequest): Promise<object>;
  onClosed(transportId: string | undefined): void;
}

/** The greetings of one connection that may wait for an answer at the same time. */
const maxGreetings = 16;

function watchTransport(transport: WatchedTransport, hooks: TransportHooks): Connection {
  let handshakeId: string | undefined;
  let announced: AnnouncedWorkspace;
  let isClosed = false;
  let opener: Promise<string | undefined> | undefined;
  let errors = 0;
  const greetings = new Map<RequestId, GreetingRequest>();
  const listeners = new Map<RequestId, DeliveryListener>();
  const { onmessage, onclose, onerror } = transport;
  const send = transport.send.bind(transport);

  function takeListener(id: RequestId | undefined): DeliveryListener | undefined {
    const listener = id === undefined ? undefined : listeners.get(id);
    if (id !== undefined) listeners.delete(id);
    return listener;
  }

  // The SDK keeps these three functions and calls them before its own.
  transport.onmessage = (...given) => {
    onmessage?.(...given);
    const [message, extra] = given;
    if (!isObject(message)) return;
    const { method, id, params } = message as { method?: unknown; id?: RequestId; params?: unknown };
    if (id === undefined || (method !== 'initialize' && method !== 'server/discover')) return;
    const meta = isObject(params) ? params['_meta'] : undefined;
    const source = readOpener(extra);
    const isOverHttp = isObject(extra) && (extra['requestInfo'] ?? extra['request'] ?? extra['authInfo']) !== undefined;
    if (greetings.size < maxGreetings) greetings.set(id, { method, meta, source, isOverHttp });
    if (method === 'server/discover') return;
    handshakeId = randomUUID();
    opener = source && hooks.findOpener(source).catch(() => undefined);
    announced = hooks.readAnnounced(meta);
  };

  transport.onerror = (...given) => {
    errors++;
    onerror?.(...given);
  };

  transport.onclose = () => {
    isClosed = true;
    for (const id of [...listeners.keys()]) takeListener(id)?.lost();
    greetings.clear();
    hooks.onClosed(transport.sessionId);
    onclose?.();
  };

  transport.send = async (...given) => {
    const [message, ...rest] = given;
    const id = readAnsweredId(message);
    const listener = takeListener(id);
    const errorsBefore = errors;
    try {
      const greeting = id === undefined ? undefined : greetings.get(id);
      if (id !== undefined) greetings.delete(id);
      const isGreeting = greeting !== undefined && isObject(message) && 'result' in message;
      await send(isGreeting ? await hooks.changeGreeting(message, greeting) : message, ...rest);
    } catch (error) {
      listener?.lost();
      throw error;
    }
    // A transport whose stream is gone only reports an error.
    if (errors > errorsBefore) listener?.lost();
    else listener?.delivered();
  };

  return {
    get handshakeId() {
      return handshakeId;
    },
    get announced() {
      return announced;
    },
    get isClosed() {
      return isClosed;
    },
    get opener() {
      return opener;
    },
    watchAnswer(id, { cancelled, gone }, listener) {
      if (isClosed || cancelled?.aborted || gone?.aborted) {
        listener.lost();
        return;
      }
      const { lost } = listener;
      listeners.set(id, { lost, delivered: () => (gone?.aborted ? lost() : listener.delivered()) });
      // Transports for a single request abort it while they send the answer; then the listener is no longer here.
      cancelled?.addEventListener('abort', () => takeListener(id)?.lost(), { once: true });
    },
  };
}

/** Reads the credential of a message. Version 1 of the SDK passes the headers, version 2 the request. */
function readOpener(extra: unknown): CredentialSource | undefined {
  if (!isObject(extra)) return undefined;
  const { authInfo, requestInfo, request } = extra as Record<string, { readonly headers?: CallHeaders } | undefined>;
  const headers = requestInfo?.headers ?? request?.headers;
  // A server may accept a handshake without a credential.
  const hasCredential = authInfo !== undefined || readBearer(headers) !== undefined;
  return hasCredential ? { extra: { authInfo }, headers } : undefined;
}

function readAnsweredId(message: unknown): RequestId | undefined {
  return isObject(message) && ('result' in message || 'error' in message) ? (message['id'] as RequestId) : undefined;
}

/** The session and workspace that a client names. They select among those the caller has and grant nothing. */
export interface ClientSelection {
  readonly sessionId: string | undefined;
  /** A host's own name for the conversation. */
  readonly hint: string | undefined;
  readonly announced: string | undefined;
}

export interface SelectionReader {
  readAnnounced(meta: unknown): AnnouncedWorkspace;
  /** Throws if the request contradicts itself. */
  read(request: { readonly call: Pick<IncomingCall, 'meta'> }, connection: Connection | undefined): ClientSelection;
}

/** The selection of a client that names nothing. */
export const noSelection: ClientSelection = Object.freeze({
  sessionId: undefined,
  hint: undefined,
  announced: undefined,
});
const keyPattern = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,63}$/;

/** Creates a reader of `_meta`, with the code of the gateway. */
export function createSelectionReader(keys: readonly string[]): SelectionReader {
  const odd = keys.find((key) => typeof key !== 'string' || !keyPattern.test(key));
  if (odd !== undefined) {
    throw new AmbitError('CONFIG_INVALID', { what: `"${String(odd).slice(0, 64)}" is not valid in "announceKeys".` });
  }
  const readWorkspace = createWorkspaceReader(keys);
  const readAnnounced = (meta: unknown) => (isObject(meta) ? readWorkspace(pickMembers(meta, keys)) : undefined);
  return {
    readAnnounced,
    read({ call: { meta } }, connection) {
      const isHandshake = connection?.handshakeId !== undefined;
      const announced = isHandshake ? connection.announced : readAnnounced(meta);
      if (announced === contradictory) {
        throw new AmbitError('REQUEST_INVALID', {
          what: 'The request announces more than one workspace.',
          hint: 'Announce one workspace, in one way.',
        });
      }
      if (!isObject(meta)) return announced === undefined ? noSelection : { ...noSelection, announced };
      const chosen = readChosenSession(pickMembers(meta, keys));
      if (chosen === undefined) {
        throw new AmbitError('REQUEST_INVALID', { what: '_meta["ambit/use-session"] must be the id of one session.' });
      }
      return { sessionId: chosen.id, hint: chosen.hint, announced };
    },
  };
}

/** Writes the members that select something, as the gateway reads them. All others may be large and are left out. */
function pickMembers(meta: Readonly<Record<string, unknown>>, keys: readonly string[]): SelectingRequest {
  const picked: Record<string, unknown> = {};
  for (const key of keys) {
    const holder = Object.hasOwn(meta, key) ? meta[key] : undefined;
    if (isObject(holder)) picked[key] = { workspace: toScalar(holder, 'workspace') };
  }
  for (const key of [...keys.map((each) => `${each}.workspace`), ...sessionKeys]) picked[key] = toScalar(meta, key);
  const bytes = Buffer.from(JSON.stringify(picked));
  return {
    bytes,
    meta: readShape(bytes, { key: '_meta', keyStart: 0, start: 0, end: bytes.length, shape: undefined }),
  };
}

/** Returns a member; null in place of an object, whose content says nothing. */
function toScalar(holder: Readonly<Record<string, unknown>>, key: string): unknown {
  const value = Object.hasOwn(holder, key) ? holder[key] : undefined;
  return typeof value === 'object' ? null : value;
}
