import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import { encodeHeaderValue } from '../../../protocol/header-value.ts';
import type { Message } from '../../../protocol/message.ts';
import { modernVersion } from '../../../protocol/versions.ts';
import type { HttpServer } from '../../definition.ts';
import type { ContextAttacher } from '../relay/context-attacher.ts';
import type { OutgoingRequest } from '../relay/towards-upstream.ts';

const accept = 'application/json, text/event-stream';

const methodsWithName = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** Common servers take 8 KiB in one header and 16 in all, of which the name of what is asked for may be half. */
const maxTokenLength = 6144;

const agentOptions = { keepAlive: true, maxSockets: 256, maxFreeSockets: 16, timeout: 60_000 };

/** An upstream over HTTP, and the connections one link keeps to it. */
export interface Remote extends HttpServer {
  readonly agent: HttpAgent;
  readonly teller: ContextAttacher;
  /** What goes along for the user; throws when it cannot be had, and then nothing is sent. */
  readonly authHeaders: () => AuthHeaders | Promise<AuthHeaders>;
  /** The upstream refused what went along: true when something else does now. Throws where the user has to act first. */
  readonly onRefused: (refusal: AuthRefusal) => Promise<boolean>;
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
 * Connections are never shared between links: what an upstream says too much on one of them would be read as the
 * answer to the next request, and that must not be another session's.
 */
export function createRemote(
  server: HttpServer,
  attacher: ContextAttacher,
  authHeaders: Remote['authHeaders'] = () => ({}),
  onRefused: Remote['onRefused'] = async () => false,
): Remote {
  const agent = server.url.protocol === 'https:' ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions);
  return { ...server, agent, teller: attacher, authHeaders, onRefused };
}

export interface PendingResponse {
  readonly response: Promise<IncomingMessage>;
  abort(): void;
}

/**
 * One HTTP request to an upstream. The headers are those given here, the operator's, and the credentials of the user,
 * which outrank both; nothing of the caller's: no bearer, no cookie, no forwarded anything. Redirects are not followed. `limitMs` bounds the whole of it, for
 * requests that nobody else watches. `mayGo` is asked just before each transmission, and throws to stop it.
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
    if (aborted) throw new AmbitError('UPSTREAM_FAILED', { what: 'The request was given up.' });
    beforeSend();
    sending = sendOnce(server, { method, headers, authHeaders, body, timeoutMs });
    return sending.response;
  }

  async function retryIfRefused(response: IncomingMessage, authHeaders: AuthHeaders): Promise<IncomingMessage> {
    if (!isRefusal(response)) return response;
    const again = await reportRefusal(server, response, authHeaders);
    if (!again) return response;
    discardResponse(response);
    const other = await server.authHeaders();
    const last = await transmitOnce(other);
    // Whoever has to act is told so; a third time it is not tried.
    if (isRefusal(last)) await reportRefusal(server, last, other);
    return last;
  }

  async function start(): Promise<IncomingMessage> {
    const known = server.authHeaders();
    // What need not be waited for is sent at once.
    const carried = known instanceof Promise ? await known : known;
    return retryIfRefused(await transmitOnce(carried), carried);
  }

  const response = start();
  // Aborting after the answer began must not become an unhandled error.
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

interface RequestParts {
  readonly method: HttpMethod;
  readonly headers: Readonly<Record<string, string>>;
  readonly authHeaders: AuthHeaders;
  readonly body: Buffer | undefined;
  readonly timeoutMs: number | undefined;
}

function sendOnce(
  server: Remote,
  { method, headers, authHeaders, body, timeoutMs: limitMs }: RequestParts,
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
  const response = new Promise<IncomingMessage>((resolve, reject) => {
    const fail = (cause?: Error) => {
      const what = `The server "${server.name}" cannot be reached.`;
      reject(isAmbitError(cause) ? cause : new AmbitError('UPSTREAM_FAILED', { what, cause }));
    };
    request.once('response', resolve);
    request.once('error', fail);
    // A switch to another protocol ends a request without a response and without an error.
    request.once('close', fail);
  });
  if (limitMs !== undefined) {
    const limit = setTimeout(() => request.destroy(new AmbitError('UPSTREAM_TIMEOUT')), limitMs).unref();
    request.once('close', () => clearTimeout(limit));
  }
  response.catch(() => {});
  request.on('error', () => {});
  request.end(body);
  return { response, abort: () => request.destroy() };
}

/** Of two spellings of one header, only the credential goes. */
function omitHeaders(
  headers: Readonly<Record<string, string>>,
  authHeaders: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const names = Object.keys(authHeaders);
  if (names.length === 0) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name.toLowerCase())));
}

const discardMs = 1000;

/** Nobody wants the rest: a short one is read, which keeps the connection for the next request, a long one is cut. */
export function discardResponse(response: IncomingMessage): void {
  response.resume();
  const cut = setTimeout(() => response.destroy(), discardMs).unref();
  response.once('close', () => clearTimeout(cut));
}

/** The headers MCP asks for, made anew from the message itself; of the caller's only `Mcp-Param-*` goes on. */
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
 * The same token that stands in `_meta`, for upstreams that look at a request before they read it. One that is bound to
 * a very long name stands in `_meta` alone: in a header it would have the whole request refused.
 */
export function addToken(headers: Record<string, string>, token: string | undefined): Record<string, string> {
  if (token !== undefined && token.length <= maxTokenLength) headers['txn-token'] = token;
  return headers;
}
