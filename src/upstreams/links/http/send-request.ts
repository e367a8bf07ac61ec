import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import { encodeHeaderValue } from '../../../protocol/header-value.ts';
import type { Message } from '../../../protocol/message.ts';
import { modernVersion } from '../../../protocol/versions.ts';
import type { HttpServer } from '../../definition.ts';
import type { Teller } from '../relay/context-attacher.ts';
import type { Outgoing } from '../relay/towards-upstream.ts';

const accept = 'application/json, text/event-stream';

const named = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** Common servers take 8 KiB in one header and 16 in all, of which the name of what is asked for may be half. */
const longestToken = 6144;

const agentOptions = { keepAlive: true, maxSockets: 256, maxFreeSockets: 16, timeout: 60_000 };

/** An upstream over HTTP, and the connections one link keeps to it. */
export interface Remote extends HttpServer {
  readonly agent: HttpAgent;
  readonly teller: Teller;
  /** What goes along for the user; throws when it cannot be had, and then nothing is sent. */
  readonly carried: () => Carried | Promise<Carried>;
  /** The upstream refused what went along: true when something else does now. Throws where the user has to act first. */
  readonly refused: (refusal: Refusal) => Promise<boolean>;
}

type Carried = Readonly<Record<string, string>>;

/** An upstream's 401 or 403. */
export interface Refusal {
  readonly status: number;
  /** Its `WWW-Authenticate`. */
  readonly challenge: string | undefined;
  readonly carried: Carried;
}

/**
 * Connections are never shared between links: what an upstream says too much on one of them would be read as the
 * answer to the next request, and that must not be another session's.
 */
export function connectTo(
  server: HttpServer,
  teller: Teller,
  carried: Remote['carried'] = () => ({}),
  refused: Remote['refused'] = async () => false,
): Remote {
  const agent = server.url.protocol === 'https:' ? new HttpsAgent(agentOptions) : new HttpAgent(agentOptions);
  return { ...server, agent, teller, carried, refused };
}

export interface Sending {
  readonly response: Promise<IncomingMessage>;
  abort(): void;
}

/**
 * One HTTP request to an upstream. The headers are those given here, the operator's, and the credentials of the user,
 * which outrank both; nothing of the caller's: no bearer, no cookie, no forwarded anything. Redirects are not followed. `limitMs` bounds the whole of it, for
 * requests that nobody else watches. `mayGo` is asked just before each transmission, and throws to stop it.
 */
export function send(
  server: Remote,
  method: Method,
  headers: Readonly<Record<string, string>>,
  body?: Buffer,
  limitMs?: number,
  mayGo: () => void = () => {},
): Sending {
  let sending: Sending | undefined;
  let aborted = false;

  function once(carried: Carried): Promise<IncomingMessage> {
    if (aborted) throw new AmbitError('UPSTREAM_FAILED', { what: 'The request was given up.' });
    mayGo();
    sending = transmit(server, { method, headers, carried, body, limitMs });
    return sending.response;
  }

  async function answered(response: IncomingMessage, carried: Carried): Promise<IncomingMessage> {
    if (!isRefusal(response)) return response;
    const again = await refusedBy(server, response, carried);
    if (!again) return response;
    letGo(response);
    const other = await server.carried();
    const last = await once(other);
    // Whoever has to act is told so; a third time it is not tried.
    if (isRefusal(last)) await refusedBy(server, last, other);
    return last;
  }

  async function begun(): Promise<IncomingMessage> {
    const known = server.carried();
    // What need not be waited for is sent at once.
    const carried = known instanceof Promise ? await known : known;
    return answered(await once(carried), carried);
  }

  const response = begun();
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

type Method = 'POST' | 'GET' | 'DELETE';

const isRefusal = ({ statusCode }: IncomingMessage) => statusCode === 401 || statusCode === 403;

async function refusedBy(server: Remote, response: IncomingMessage, carried: Carried): Promise<boolean> {
  const { statusCode: status = 0, headers } = response;
  try {
    return await server.refused({ status, challenge: headers['www-authenticate'], carried });
  } catch (error) {
    letGo(response);
    throw error;
  }
}

interface Transmission {
  readonly method: Method;
  readonly headers: Readonly<Record<string, string>>;
  readonly carried: Carried;
  readonly body: Buffer | undefined;
  readonly limitMs: number | undefined;
}

function transmit(server: Remote, { method, headers, carried, body, limitMs }: Transmission): Sending {
  const secure = server.url.protocol === 'https:';
  const request = (secure ? httpsRequest : httpRequest)(server.url, {
    method,
    agent: server.agent,
    headers: {
      ...without(headers, carried),
      ...without(server.headers, carried),
      ...carried,
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
function without(
  headers: Readonly<Record<string, string>>,
  carried: Readonly<Record<string, string>>,
): Readonly<Record<string, string>> {
  const names = Object.keys(carried);
  if (names.length === 0) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !names.includes(name.toLowerCase())));
}

const letGoMs = 1000;

/** Nobody wants the rest: a short one is read, which keeps the connection for the next request, a long one is cut. */
export function letGo(response: IncomingMessage): void {
  response.resume();
  const cut = setTimeout(() => response.destroy(), letGoMs).unref();
  response.once('close', () => clearTimeout(cut));
}

/** The headers MCP asks for, made anew from the message itself; of the caller's only `Mcp-Param-*` goes on. */
export function modernHeaders(
  message: Message,
  outgoing: Pick<Outgoing, 'name' | 'taskId'>,
  params: Readonly<Record<string, string>>,
): Record<string, string> {
  const headers: Record<string, string> = {
    ...params,
    accept,
    'mcp-protocol-version': modernVersion,
    'mcp-method': message.method,
  };
  if (named.has(message.method)) headers['mcp-name'] = encodeHeaderValue(outgoing.name);
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
export function withToken(headers: Record<string, string>, token: string | undefined): Record<string, string> {
  if (token !== undefined && token.length <= longestToken) headers['txn-token'] = token;
  return headers;
}
