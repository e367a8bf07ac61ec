import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import { findMember, readRawValue, readStringValue } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';
import { repeatableParams } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import type { HttpDialect } from './http-link.ts';
import { readAnswer } from './read-answer.ts';
import { createEventStream, type EventStream } from './resume-stream.ts';
import { addToken, discardResponse, handshakeHeaders, type Remote, sendRequest } from './send-request.ts';

/** Creates the dialect of the handshake era: each client has its own session with the upstream, reopened when lost. */
export function createHandshakeDialect(
  server: Remote,
  maxBytes: number,
  ownParams?: string,
): HttpDialect & { readonly handshake: Handshake | undefined } {
  let upstreamSession: string | undefined;
  let version: string | undefined;
  /** The params of the handshake; known from the start where Ambit makes it for a modern client. */
  let initializeParams = ownParams;
  let handshake: Handshake | undefined;
  let repeating: Promise<void> | undefined;
  let closed = false;
  const streams = new Set<EventStream>();

  function readSessionId(response: IncomingMessage): string | undefined {
    const id = response.headers['mcp-session-id'];
    return typeof id === 'string' ? id : undefined;
  }

  /** Repeats the first handshake after the upstream has lost its session. The client does not notice. */
  async function repeatHandshake(): Promise<void> {
    const { params, token } = server.attacher.attachToParams('initialize', initializeParams ?? '{}');
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":"initialize","params":${params}}`);
    const headers = addToken(handshakeHeaders(undefined, undefined), token);
    const response = await sendRequest(server, 'POST', headers, body, server.timeoutMs).response;
    let answer: Message | undefined;
    await readAnswer(response, {
      server: server.name,
      maxBytes,
      onMessage(message) {
        if (message.kind === 'response') answer = message;
        return message.kind === 'response';
      },
    });
    if (answer?.result === undefined) throw new AmbitError('UPSTREAM_FAILED');
    rememberHandshake(answer);
    upstreamSession = readSessionId(response);
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    const afterwards = handshakeHeaders(upstreamSession, version);
    discardResponse(await sendRequest(server, 'POST', afterwards, initialized, server.timeoutMs).response);
    for (const stream of streams) stream.restart();
  }

  function rememberHandshake(answer: Message): void {
    if (answer.result === undefined) return;
    const negotiated = readStringValue(answer.bytes, findMember(answer.result.shape, 'protocolVersion'));
    // The version goes into a header of every request, so anything but a revision of MCP is dropped.
    version = negotiated !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(negotiated) ? negotiated : undefined;
    handshake = { version: version ?? '', result: readRawValue(answer.bytes, answer.result) };
  }

  function streamHeaders(eventId: string | undefined): Record<string, string> {
    const headers = { ...handshakeHeaders(upstreamSession, version), accept: 'text/event-stream' };
    return eventId === undefined ? headers : { ...headers, 'last-event-id': eventId };
  }

  function ensureSession(): Promise<void> {
    repeating ??= repeatHandshake().finally(() => {
      repeating = undefined;
    });
    return repeating;
  }

  return {
    era: 'handshake',
    get handshake() {
      return handshake;
    },
    async prepare() {
      if (ownParams !== undefined && handshake === undefined) await ensureSession();
    },
    headers: (message) =>
      message.method === 'initialize'
        ? handshakeHeaders(undefined, undefined)
        : handshakeHeaders(upstreamSession, version),

    async inspect(message, response, { 'mcp-session-id': sentWith }) {
      if (message.method === 'initialize') {
        upstreamSession = readSessionId(response);
        return false;
      }
      if (response.statusCode !== 404 || sentWith === undefined || initializeParams === undefined) return false;
      // Another call may have reopened the session before this one.
      if (sentWith === upstreamSession) void ensureSession();
      await repeating;
      return true;
    },

    onCompleted(message, answer) {
      if (message.method !== 'initialize' || answer.result === undefined) return;
      rememberHandshake(answer);
      initializeParams = repeatableParams(message);
    },

    streamHeaders,

    openEventStream(channel, receive) {
      if (closed || channel.isGone()) return;
      const stream = createEventStream(
        (eventId) => sendRequest(server, 'GET', streamHeaders(eventId)),
        (response, { onEventId, onRetry }) =>
          readAnswer(response, {
            server: server.name,
            maxBytes,
            onEventId,
            onRetry,
            onMessage(message) {
              receive(message, response);
              return false;
            },
          }),
      );
      streams.add(stream);
      channel.onGone(() => {
        streams.delete(stream);
        stream.end();
      });
    },

    close() {
      closed = true;
      for (const stream of streams) stream.end();
      if (upstreamSession === undefined) return;
      const headers = handshakeHeaders(upstreamSession, version);
      sendRequest(server, 'DELETE', headers, undefined, server.timeoutMs).response.then(discardResponse, () => {});
    },
  };
}
