import type { IncomingMessage } from 'node:http';
import type { Message } from '../../wire/message.ts';
import { memberOf, rawAt, stringAt } from '../../wire/scan.ts';
import type { HttpServer } from '../definition.ts';
import { repeatableParams } from '../handshake.ts';
import type { Handshake } from '../link.ts';
import type { HttpManner } from './http-link.ts';
import { failure, readAnswer } from './read-answer.ts';
import { handshakeHeaders } from './request-headers.ts';
import { send } from './send.ts';

const reconnectMs = 1000;

/** The handshake era over HTTP: one session of the upstream's own for each client, opened anew when it is lost. */
export function handshakeManner(
  server: HttpServer,
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

  function learn(response: IncomingMessage): void {
    const id = response.headers['mcp-session-id'];
    if (typeof id === 'string') upstreamSession = id;
  }

  /** Repeats the first handshake, so that the caller need not notice that the upstream forgot its session. */
  async function heal(): Promise<void> {
    upstreamSession = undefined;
    const body = Buffer.from(`{"jsonrpc":"2.0","id":"ambit","method":"initialize","params":${initializeParams}}`);
    const response = await send(server, 'POST', handshakeHeaders(undefined, undefined), body).response;
    learn(response);
    await readAnswer(response, {
      server: server.name,
      maxBytes,
      onMessage(message) {
        if (message.kind !== 'response') return false;
        remember(message);
        return true;
      },
    });
    if (handshake === undefined) throw failure(server.name, response);
    const initialized = Buffer.from('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    (await send(server, 'POST', handshakeHeaders(upstreamSession, version), initialized).response).resume();
  }

  function remember(answer: Message): void {
    if (answer.result === undefined) return;
    version = stringAt(answer.bytes, memberOf(answer.result.shape, 'protocolVersion'));
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

    async inspect(message, response) {
      if (message.method === 'initialize') {
        learn(response);
        return false;
      }
      if (response.statusCode !== 404 || upstreamSession === undefined || initializeParams === undefined) return false;
      await healed();
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
        if (stream.gone || closed) return;
        const resume: Record<string, string> = lastEventId === undefined ? {} : { 'last-event-id': lastEventId };
        const sending = send(server, 'GET', {
          ...handshakeHeaders(upstreamSession, version),
          accept: 'text/event-stream',
          ...resume,
        });
        abort = sending.abort;
        const response = await sending.response;
        if (response.statusCode !== 200) {
          response.resume();
          // 405 is a server without such a stream; anything else will show on the next request.
          return;
        }
        await readAnswer(response, {
          server: server.name,
          maxBytes,
          onMessage(message: Message) {
            receive(message);
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
      const sending = send(server, 'DELETE', handshakeHeaders(upstreamSession, version));
      sending.response.then(
        (response) => response.resume(),
        () => {},
      );
    },
  };
}
