import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import { memberOf, rawAt, stringAt } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';
import { repeatableParams } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import type { HttpManner } from './http-link.ts';
import { readAnswer } from './read-answer.ts';
import { handshakeHeaders, letGo, type Remote, send, withToken } from './send-request.ts';

const reconnectMs = 1000;

/** The handshake era over HTTP: one session of the upstream's own for each client, opened anew when it is lost. */
export function handshakeManner(
  server: Remote,
  maxBytes: number,
  ownParams?: string,
): HttpManner & { readonly handshake: Handshake | undefined } {
  let upstreamSession: string | undefined;
  let version: string | undefined;
  /** Given beforehand where Ambit shakes hands itself, for a client that knows no handshake. */
  let initializeParams = ownParams;
  let handshake: Handshake | undefined;
  let healing: Promise<void> | undefined;
  let closed = false;
  const streams = new Set<() => void>();

  function sessionOf(response: IncomingMessage): string | undefined {
    const id = response.headers['mcp-session-id'];
    return typeof id === 'string' ? id : undefined;
  }

  /** Repeats the first handshake, so that the caller need not notice that the upstream forgot its session. */
  async function heal(): Promise<void> {
    const { params, token } = server.teller.introduce('initialize', initializeParams ?? '{}');
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":"initialize","params":${params}}`);
    const headers = withToken(handshakeHeaders(undefined, undefined), token);
    const response = await send(server, 'POST', headers, body, server.timeoutMs).response;
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
    remember(answer);
    upstreamSession = sessionOf(response);
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    const afterwards = handshakeHeaders(upstreamSession, version);
    letGo(await send(server, 'POST', afterwards, initialized, server.timeoutMs).response);
  }

  function remember(answer: Message): void {
    if (answer.result === undefined) return;
    const negotiated = stringAt(answer.bytes, memberOf(answer.result.shape, 'protocolVersion'));
    // It goes into a header of every request: what is no revision of MCP does not.
    version = negotiated !== undefined && /^\d{4}-\d{2}-\d{2}$/.test(negotiated) ? negotiated : undefined;
    handshake = { version: version ?? '', result: rawAt(answer.bytes, answer.result) };
  }

  function healed(): Promise<void> {
    healing ??= heal().finally(() => {
      healing = undefined;
    });
    return healing;
  }

  return {
    era: 'handshake',
    get handshake() {
      return handshake;
    },
    async prepare() {
      if (ownParams !== undefined && handshake === undefined) await healed();
    },
    headers: (message) =>
      message.method === 'initialize'
        ? handshakeHeaders(undefined, undefined)
        : handshakeHeaders(upstreamSession, version),

    async inspect(message, response, { 'mcp-session-id': sentWith }) {
      if (message.method === 'initialize') {
        upstreamSession = sessionOf(response);
        return false;
      }
      if (response.statusCode !== 404 || sentWith === undefined || initializeParams === undefined) return false;
      // Another call may have found the session lost before this one did, and opened it anew.
      if (sentWith === upstreamSession) void healed();
      await healing;
      return true;
    },

    completed(message, answer) {
      if (message.method !== 'initialize' || answer.result === undefined) return;
      remember(answer);
      initializeParams = repeatableParams(message);
    },

    listen(stream, receive) {
      let lastEventId: string | undefined;
      let abort = () => {};
      const end = () => abort();
      streams.add(end);
      stream.onGone(() => {
        streams.delete(end);
        end();
      });
      const open = async (): Promise<void> => {
        if (stream.isGone() || closed) return;
        const resume: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
        const sending = send(server, 'GET', {
          ...handshakeHeaders(upstreamSession, version),
          accept: 'text/event-stream',
          ...resume,
        });
        abort = sending.abort;
        const response = await sending.response;
        if (response.statusCode !== 200) {
          letGo(response);
          // 405 is a server without such a stream; anything else will show on the next request.
          return;
        }
        await readAnswer(response, {
          server: server.name,
          maxBytes,
          onMessage(message: Message) {
            receive(message, response);
            return false;
          },
          onEventId(id) {
            lastEventId = id;
          },
        }).catch(() => {});
        setTimeout(() => void open().catch(() => {}), reconnectMs).unref();
      };
      void open().catch(() => {});
    },

    close() {
      closed = true;
      for (const end of streams) end();
      if (upstreamSession === undefined) return;
      const headers = handshakeHeaders(upstreamSession, version);
      send(server, 'DELETE', headers, undefined, server.timeoutMs).response.then(letGo, () => {});
    },
  };
}
