import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import type { Message } from '../../../protocol/message.ts';
import type { EraVerdicts } from '../era-verdicts.ts';
import { markHarmless, notMcpError, silenceError } from '../upstream-errors.ts';
import { brokenOffError, readAnswer } from './read-answer.ts';
import { discardResponse, type PendingResponse, type Remote, sendRequest } from './send-request.ts';

/** Takes the messages of the stream. */
export interface StreamReceiver {
  onMessage(message: Message, response: IncomingMessage): void;
  /** Called once, when the stream has ended. No answer comes any more. */
  onLost(error: Error): void;
}

/**
 * A connection to a server of the HTTP+SSE transport (MCP 2024-11-05). All messages of the server come over one stream.
 * Its first event names the address that messages are posted to.
 */
export interface SseConnection {
  isOpen(): boolean;
  /** Posts a message. The response only confirms it; the answer comes over the stream. */
  post(
    headers: Readonly<Record<string, string>>,
    body: Buffer,
    timeoutMs?: number,
    beforeSend?: () => void,
  ): PendingResponse;
  close(): void;
}

/** The time for a server to answer the GET and to name its address. */
const endpointMs = 10_000;
const maxEndpointLength = 8192;

/** Errors of servers that do not speak HTTP+SSE, and of those that speak it but name an address that is not allowed. */
const faults = new WeakMap<Error, 'absent' | 'endpoint'>();

/** Remembers which servers speak HTTP+SSE. */
export type SseMemory = Pick<EraVerdicts, 'usesSse' | 'setSse'>;

/** The HTTP+SSE transport of one link: whether its server uses it, and the connection. */
export interface SseTransport {
  readonly isUsed: boolean;
  /** The last connection, which may be closed by now; undefined while the transport is not used. */
  readonly connection: SseConnection | undefined;
  /** Connects if the server uses the transport. False when it does not, or no longer does. */
  connectIfUsed(): Promise<boolean>;
  /** Finds out whether a server uses the transport. A server that does is connected then. */
  detect(): Promise<boolean>;
  /** Sends a handshake of Ambit's own, with the id "ambit". A failed one closes the connection. */
  ask(headers: AskHeaders, body: Buffer): Promise<Message>;
  close(): void;
}

export function createSseTransport(
  server: Remote,
  maxBytes: number,
  memory: SseMemory,
  receiver: StreamReceiver,
): SseTransport {
  let isUsed = server.transport === 'sse' || memory.usesSse(server.name);
  let isClosed = false;
  let connection: SseConnection | undefined;
  let connecting: Promise<SseConnection> | undefined;
  let ownAnswer: { resolve(answer: Message): void; reject(error: Error): void } | undefined;

  const streamReceiver: StreamReceiver = {
    onMessage(message, response) {
      if (message.kind === 'response' && message.id === '"ambit"') ownAnswer?.resolve(message);
      else receiver.onMessage(message, response);
    },
    onLost(error) {
      ownAnswer?.reject(error);
      receiver.onLost(error);
    },
  };

  /** Opens the stream, once however many calls wait for it. */
  async function connect(): Promise<SseConnection> {
    if (connection?.isOpen()) return connection;
    connecting ??= openSseConnection(server, maxBytes, streamReceiver).finally(() => {
      connecting = undefined;
    });
    connection = await connecting;
    if (isClosed) connection.close();
    return connection;
  }

  async function waitForAnswer(opened: SseConnection, headers: AskHeaders, body: Buffer): Promise<Message> {
    const answer = new Promise<Message>((resolve, reject) => {
      ownAnswer = { resolve, reject };
    });
    answer.catch(() => {});
    const limit = setTimeout(
      () => ownAnswer?.reject(silenceError(server.name, server.timeoutMs)),
      server.timeoutMs,
    ).unref();
    try {
      const response = await opened.post(headers, body, server.timeoutMs).response;
      discardResponse(response);
      if ((response.statusCode ?? 0) >= 300) throw notMcpError(server.name, response);
      return await answer;
    } finally {
      clearTimeout(limit);
      ownAnswer = undefined;
    }
  }

  return {
    get isUsed() {
      return isUsed;
    },
    get connection() {
      return isUsed ? connection : undefined;
    },
    async connectIfUsed() {
      if (!isUsed) return false;
      try {
        await connect();
        return true;
      } catch (error) {
        if (server.transport === 'sse' || faults.get(error as Error) !== 'absent') throw error;
        isUsed = false;
        memory.setSse(server.name, false);
        return false;
      }
    },
    async detect() {
      try {
        await connect();
      } catch (error) {
        if (faults.get(error as Error) === 'endpoint') throw error;
        return false;
      }
      isUsed = true;
      memory.setSse(server.name, true);
      return true;
    },
    async ask(headers, body) {
      const opened = await connect();
      try {
        return await waitForAnswer(opened, headers, body);
      } catch (error) {
        opened.close();
        throw error;
      }
    },
    close() {
      isClosed = true;
      connection?.close();
    },
  };
}

/** Posts a message whose answer is not read: over the connection, or to the URL of a server without one. */
export function postToServer(
  server: Remote,
  connection: SseConnection | undefined,
  headers: AskHeaders,
  body: Buffer,
): PendingResponse {
  if (connection !== undefined) return connection.post(headers, body, server.timeoutMs);
  return sendRequest(server, 'POST', headers, body, server.timeoutMs);
}

type AskHeaders = Readonly<Record<string, string>>;

/** Opens the stream and waits for the address. The address must have the origin of the configured URL. */
async function openSseConnection(server: Remote, maxBytes: number, receiver: StreamReceiver): Promise<SseConnection> {
  const sending = sendRequest(server, 'GET', { accept: 'text/event-stream' });
  let isLate = false;
  const limit = setTimeout(
    () => {
      isLate = true;
      sending.abort();
    },
    Math.min(endpointMs, server.timeoutMs),
  ).unref();
  try {
    return await readEndpoint(server, sending, maxBytes, receiver);
  } catch (error) {
    throw isLate ? noEndpointError(server) : error;
  } finally {
    clearTimeout(limit);
  }
}

async function readEndpoint(
  server: Remote,
  sending: PendingResponse,
  maxBytes: number,
  receiver: StreamReceiver,
): Promise<SseConnection> {
  const response = await sending.response;
  if (response.statusCode !== 200 || !/^text\/event-stream\b/i.test(response.headers['content-type'] ?? '')) {
    discardResponse(response);
    const error = notMcpError(server.name, response, 'GET');
    faults.set(error, 'absent');
    throw error;
  }
  return new Promise((resolve, reject) => {
    let target: Remote | undefined;
    let isOver = false;

    function end(error: Error): void {
      if (isOver) return;
      isOver = true;
      response.destroy();
      if (target === undefined) reject(error);
      else receiver.onLost(error);
    }

    readAnswer(response, {
      server: server.name,
      maxBytes,
      onNamedEvent(name, data) {
        if (name !== 'endpoint' || target !== undefined || isOver) return;
        try {
          target = { ...server, url: parseEndpoint(server, data) };
          resolve(connection);
        } catch (error) {
          end(error as Error);
        }
      },
      onMessage(message) {
        if (target !== undefined && !isOver) receiver.onMessage(message, response);
        return false;
      },
    }).then(() => end(target === undefined ? noEndpointError(server) : brokenOffError(server.name)), end);

    const connection: SseConnection = {
      isOpen: () => !isOver,
      post(headers, body, timeoutMs, beforeSend) {
        if (target !== undefined && !isOver) return sendRequest(target, 'POST', headers, body, timeoutMs, beforeSend);
        const failed = Promise.reject(markHarmless(brokenOffError(server.name), 'unsent'));
        failed.catch(() => {});
        return { response: failed, abort() {} };
      },
      close: () => end(brokenOffError(server.name)),
    };
  });
}

/** Reads the address. Credentials and context are sent there, so a server must not lead them to another host. */
function parseEndpoint({ name, url }: Remote, data: Buffer): URL {
  const text = data.toString('utf8');
  const isUsable = text.length > 0 && text.length <= maxEndpointLength && URL.canParse(text, url.href);
  const endpoint = isUsable ? new URL(text, url.href) : undefined;
  const { protocol, origin, username, password } = url;
  // A blob: URL has the origin of the URL inside it, so the protocol is compared as well.
  const isSameHost = endpoint?.protocol === protocol && endpoint.origin === origin;
  if (isSameHost && endpoint.username === username && endpoint.password === password) return endpoint;
  const error = new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${name}" (HTTP+SSE) names an address for messages that ${endpoint === undefined ? 'is not valid' : 'is on another host'}.`,
    hint: 'Check the URL of the server in the configuration: it must have the scheme, host and port that the server itself uses.',
  });
  faults.set(error, 'endpoint');
  throw markHarmless(error, 'unsent');
}

function noEndpointError({ name }: Remote): AmbitError {
  const error = new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${name}" did not name its address for messages, as the HTTP+SSE transport requires.`,
    hint: 'Check the URL of the server in the configuration; many servers of this transport use /sse.',
  });
  faults.set(error, 'absent');
  return markHarmless(error, 'unsent');
}
