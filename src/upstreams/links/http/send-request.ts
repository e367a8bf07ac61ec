import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import type { Message } from '../../../protocol/message.ts';
import { encodeHeaderValue } from '../../../protocol/modern-envelope.ts';
import { modernVersion } from '../../../protocol/versions.ts';
import type { HttpServer } from '../../definition.ts';
import type { ContextAttacher } from '../relay/context-attacher.ts';
import type { OutgoingRequest } from '../relay/towards-upstream.ts';
import { silenceError, unreachableError } from '../upstream-errors.ts';

const accept = 'application/json, text/event-stream';

const methodsWithName = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** Common servers accept 8 KiB in one header and 16 KiB in all, of which the name of the target may be half. */
const maxTokenLength = 6144;

const agentOptions = { keepAlive: true, maxSockets: 256, maxFreeSockets: 16, timeout: 60_000 };

/** An upstream over HTTP, with the connections of one link. */
export interface Remote extends HttpServer {
  readonly agent: HttpAgent;
  readonly attacher: ContextAttacher;
  /** Reads the auth headers of the user; throws when there are none to be had, and then nothing is sent. */
  readonly authHeaders: () => AuthHeaders | Promise<AuthHeaders>;
  /** Handles refused auth: true when there are other headers now. Throws when the user has to act first. */
  readonly onRefused: (refusal: AuthRefusal) => Promise<boolean>;
  /** Called when a call has failed: the server cannot be reached, or its answer is no MCP. */
  readonly onFailed: (error: Error) => void;
  /** Called when a call was answered. */
  readonly onAnswered: () => void;
}

type AuthHeaders = Readonly<Record<string, string>>;

/** An upstream's 401 or 403. */
export interface AuthRefusal {
  readonly status: number;
  /** Its `WWW-Authenticate`. */
  readonly challenge: string | undefined;
  readonly authHeaders: AuthHeaders;
}

/**
 * Creates a remote with its own connections. Links never share them: surplus bytes of an upstream would be read as the
 * answer to the next request, which may be another session's.
 */
export function createRemote(
  server: HttpServer,
  attacher: ContextAttacher,
  authHeaders: Remote['authHeaders'],
  onRefused: Remote['onRefused'],
  onFailed: Remote['onFailed'] = () => {},
  onAnswered: Remote['onAnswered'] = () => {},
): Remote {
  const agent = server.url.protocol === 'https:' ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions);
  return { ...server, agent, attacher, authHeaders, onRefused, onFailed, onAnswered };
}

export interface PendingResponse {
  readonly response: Promise<IncomingMessage>;
  abort(): void;
}

/**
 * Sends one HTTP request to an upstream, with the given headers, the operator's, and the auth headers of the user, which
 * override both. No header of the caller is forwarded, and redirects are not followed. `timeoutMs` limits the whole
 * request. `beforeSend` runs before each transmission, and throws to stop it.
 */
export function sendRequest(
  server: Remote,
  method: HttpMethod,
  headers: Readonly<Record<string, string>>,
  body?: Buffer,
  timeoutMs?: number,
  beforeSend: () => void = () => {},
): PendingResponse {
  let sending: PendingResponse | undefined;
  let aborted = false;

  function transmitOnce(authHeaders: AuthHeaders): Promise<IncomingMessage> {
    if (aborted) throw new AmbitError('UPSTREAM_FAILED', { what: 'The request was cancelled.' });
    beforeSend();
    sending = sendOnce(server, method, headers, authHeaders, body, timeoutMs);
    return sending.response;
  }

  async function retryIfRefused(response: IncomingMessage, authHeaders: AuthHeaders): Promise<IncomingMessage> {
    if (!isRefusal(response)) return response;
    if (!(await reportRefusal(server, response, authHeaders))) return response;
    discardResponse(response);
    const other = await server.authHeaders();
    const last = await transmitOnce(other);
    // A second refusal is reported, and not tried again.
    if (isRefusal(last)) await reportRefusal(server, last, other);
    return last;
  }

  async function start(): Promise<IncomingMessage> {
    const known = server.authHeaders();
    // Known headers are sent without waiting.
    const authHeaders = known instanceof Promise ? await known : known;
    return retryIfRefused(await transmitOnce(authHeaders), authHeaders);
  }

  const response = start();
  // An abort after the answer began must not become an unhandled rejection.
  response.catch(() => {});
  return {
    response,
    abort() {
      aborted = true;
      sending?.abort();
    },
  };
}

type HttpMethod = 'POST' | 'GET' | 'DELETE';

const isRefusal = ({ statusCode }: IncomingMessage) => statusCode === 401 || statusCode === 403;

async function reportRefusal(server: Remote, response: IncomingMessage, authHeaders: AuthHeaders): Promise<boolean> {
  const { statusCode: status = 0, headers } = response;
  try {
    return await server.onRefused({ status, challenge: headers['www-authenticate'], authHeaders });
  } catch (error) {
    discardResponse(response);
    throw error;
  }
}

function sendOnce(
  server: Remote,
  method: HttpMethod,
  headers: Readonly<Record<string, string>>,
  authHeaders: AuthHeaders,
  body: Buffer | undefined,
  timeoutMs: number | undefined,
): PendingResponse {
  const secure = server.url.protocol === 'https:';
  const request = (secure ? httpsRequest : httpRequest)(server.url, {
    method,
    agent: server.agent,
    headers: {
      ...omitHeaders(headers, authHeaders),
      ...omitHeaders(server.headers, authHeaders),
      ...authHeaders,
      ...(body === undefined ? {} : { 'content-type': 'application/json', 'content-length': body.length }),
    },
  });
  let isConnected = false;
  request.once('socket', (socket) => {
    isConnected = !socket.connecting;
    if (!isConnected) socket.once(secure ? 'secureConnect' : 'connect', () => (isConnected = true));
  });
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    const fail = (cause?: Error) => reject(isAmbitError(cause) ? cause : unreachableError(server, cause, isConnected));
    request.once('response', resolve);
    request.once('error', fail);
    // A switch to another protocol ends a request with neither a response nor an error.
    request.once('close', fail);
  });
  if (timeoutMs !== undefined) {
    const limit = setTimeout(() => request.destroy(silenceError(server.name, timeoutMs)), timeoutMs).unref();
    request.once('close', () => clearTimeout(limit));
  }
  response.catch(() => {});
  request.on('error', () => {});
  request.end(body);
  return { response, abort: () => request.destroy() };
}

/** Removes the headers that the auth headers replace, in any spelling. */
function omitHeaders(headers: AuthHeaders, authHeaders: AuthHeaders): AuthHeaders {
  const names = Object.keys(authHeaders);
  if (names.length === 0) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name.toLowerCase())));
}

const discardMs = 1000;

/** Discards the rest of a response: a short one is read, which keeps the connection open; a long one is cut off. */
export function discardResponse(response: IncomingMessage): void {
  response.resume();
  const cut = setTimeout(() => response.destroy(), discardMs).unref();
  response.once('close', () => clearTimeout(cut));
}

/** The MCP headers of a modern request, made from the message. Of the caller's headers only `Mcp-Param-*` is kept. */
export function modernHeaders(
  message: Message,
  outgoing: Pick<OutgoingRequest, 'name' | 'taskId'>,
  params: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = {
    ...params,
    accept,
    'mcp-protocol-version': modernVersion,
    'mcp-method': message.method,
  };
  if (methodsWithName.has(message.method)) headers['mcp-name'] = encodeHeaderValue(outgoing.name);
  else if (outgoing.taskId !== undefined) headers['mcp-name'] = encodeHeaderValue(outgoing.taskId);
  return headers;
}

export function handshakeHeaders(
  upstreamSession: string | undefined,
  version: string | undefined,
): Record<string, string> {
  return {
    accept,
    ...(upstreamSession === undefined ? {} : { 'mcp-session-id': upstreamSession }),
    // Revisions before 2025-06-18 do not know this header.
    ...(version === undefined || version < '2025-06-18' ? {} : { 'mcp-protocol-version': version }),
  };
}

/**
 * Adds the context token of `_meta` as a header, for upstreams that check a request before they read it. A token for a
 * very long name is left out: as a header it would cause the whole request to be refused.
 */
export function addToken(headers: Record<string, string>, token: string | undefined): Record<string, string> {
  if (token !== undefined && token.length <= maxTokenLength) headers['txn-token'] = token;
  return headers;
}

/** The place in a stream from which it can be resumed (SEP-1699). */
export interface StreamPosition {
  /** The id of the last event; undefined where the upstream gives none that can be sent back. */
  readonly eventId: string | undefined;
  /** The time that the upstream wants a client to wait before it reconnects. */
  readonly retryMs: number;
  /** True if the upstream has set that time. */
  readonly asksToReturn: boolean;
  onEventId(id: string | undefined): void;
  onRetry(ms: number): void;
}

const defaultRetryMs = 1000;
/** The shortest and the longest wait that an upstream can set. */
const minRetryMs = 100;
const maxRetryMs = 60_000;
/** The number of attempts in a row that may fail before a call is given up. */
const maxFailures = 5;

export function createStreamPosition(): StreamPosition {
  let eventId: string | undefined;
  let retryMs = defaultRetryMs;
  let asksToReturn = false;
  return {
    get eventId() {
      return eventId;
    },
    get retryMs() {
      return retryMs;
    },
    get asksToReturn() {
      return asksToReturn;
    },
    onEventId(id) {
      eventId = id;
    },
    onRetry(ms) {
      asksToReturn = true;
      retryMs = Math.min(Math.max(ms, minRetryMs), maxRetryMs);
    },
  };
}

/** Opens a stream after an event. */
type OpenStream = (eventId: string | undefined) => PendingResponse;

/** Takes the function that gives up the current attempt or wait. */
type SetAbort = (abort: () => void) => void;

/**
 * Resumes the stream of a call that the upstream closed before the answer. Undefined when nobody wants the answer any
 * more, or the upstream cannot resume the stream.
 */
export async function resumeStream(
  position: StreamPosition,
  open: OpenStream,
  isWanted: () => boolean,
  setAbort: SetAbort,
  channel: Channel | undefined,
  /** True the first time that the stream of a call is resumed. */
  isFirst: boolean,
): Promise<IncomingMessage | undefined> {
  for (let failures = 0; failures < maxFailures; failures++) {
    const wait = waitToReconnect(position, failures, setAbort);
    // The return of the client ends the first wait of a call only: a client that ignores the time cannot make Ambit poll.
    if (failures === 0) channel?.suspend?.(position.retryMs, isFirst ? wait.end : () => {});
    await wait.over;
    if (!isWanted()) return undefined;
    const sending = open(position.eventId);
    setAbort(sending.abort);
    const response = await sending.response.catch(() => undefined);
    if (response === undefined) continue;
    if (response.statusCode === 200) return response;
    discardResponse(response);
    if (!isTemporary(response)) return undefined;
  }
  return undefined;
}

/** The upstream's stream for messages that no request waits for. */
export interface EventStream {
  /** Opens the stream again from its beginning, in a new session with the upstream. */
  restart(): void;
  end(): void;
}

/** Keeps a stream open. One that closes is resumed after its last event, as long as the upstream has such a stream. */
export function createEventStream(
  open: OpenStream,
  read: (response: IncomingMessage, position: StreamPosition) => Promise<void>,
): EventStream {
  let stop = readForever(open, read);
  return {
    restart() {
      stop();
      stop = readForever(open, read);
    },
    end: () => stop(),
  };
}

function readForever(open: OpenStream, read: Parameters<typeof createEventStream>[1]): () => void {
  const position = createStreamPosition();
  let isOver = false;
  let abort = () => {};
  const setAbort: SetAbort = (given) => {
    abort = given;
  };

  /** Returns false when another attempt makes no sense. */
  async function readOnce(): Promise<boolean> {
    const sending = open(position.eventId);
    setAbort(sending.abort);
    const response = await sending.response;
    if (response.statusCode === 200) {
      await read(response, position).catch(() => {});
      return true;
    }
    discardResponse(response);
    // 405 means a server without such a stream, and 404 one that has lost the session.
    return isTemporary(response);
  }

  async function readOn(): Promise<void> {
    for (let failures = 0; !isOver; ) {
      const began = Date.now();
      const mayGoOn = await readOnce().catch(() => undefined);
      if (isOver || mayGoOn === false) return;
      failures = mayGoOn === undefined || Date.now() - began < minRetryMs ? failures + 1 : 0;
      await waitToReconnect(position, Math.max(failures - 1, 0), setAbort).over;
    }
  }

  void readOn();
  return () => {
    isOver = true;
    abort();
  };
}

/** Waits as long as the upstream wants, and twice as long after each failure. */
function waitToReconnect(
  { retryMs }: StreamPosition,
  failures: number,
  setAbort: SetAbort,
): { readonly over: Promise<void>; end(): void } {
  let end = () => {};
  const over = new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, Math.min(retryMs * 2 ** failures, maxRetryMs)).unref();
    end = () => {
      clearTimeout(timer);
      resolve();
    };
  });
  setAbort(end);
  return { over, end };
}

function isTemporary({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 500 || [408, 425, 429].includes(statusCode);
}
