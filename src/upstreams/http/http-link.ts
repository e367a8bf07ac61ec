import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../errors.ts';
import type { Outward, Sent } from '../../upstreams/sent.ts';
import type { Channel, Era, Reply } from '../../wire/channel.ts';
import { errorMessage, notificationMessage } from '../../wire/compose.ts';
import { replaceValue } from '../../wire/edit.ts';
import { idMember, type Message } from '../../wire/message.ts';
import { stripOurKeys } from '../../wire/our-keys.ts';
import { memberOf } from '../../wire/scan.ts';
import type { Caller } from '../caller.ts';
import type { HttpServer } from '../definition.ts';
import type { BaseLink, Call } from '../link.ts';
import { createPendingCalls, type PendingCall } from '../relay/pending.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { responseTowardsClient } from '../relay/towards-client.ts';
import {
  type Binding,
  notificationTowardsUpstream,
  type Outgoing,
  towardsUpstream,
} from '../relay/towards-upstream.ts';
import { brokenOff, failure, readAnswer } from './read-answer.ts';
import { type Sending, send } from './send.ts';

/** What differs between the eras: the headers of a request, and what a session of the upstream's own needs. */
export interface HttpManner {
  readonly era: Era;
  /** Before the first request; throws when the upstream does not speak this era. */
  prepare(): Promise<void>;
  headers(
    message: Message,
    outgoing: Pick<Outgoing, 'name' | 'taskId'>,
    params: Call['headers'],
  ): Record<string, string>;
  /** Looks at every answer's head; true asks for the request to be sent once more. */
  inspect(message: Message, response: IncomingMessage): Promise<boolean>;
  /** After the final message of a request. */
  completed(message: Message, answer: Message): void;
  /** Opens the upstream's stream for what no request waits for. */
  listen(stream: Channel, receive: (message: Message) => void): void;
  close(): void;
}

export interface HttpLinkOptions {
  readonly server: HttpServer;
  readonly sessionId: string;
  readonly manner: HttpManner;
  readonly binding: Binding;
  readonly outward: Outward;
  readonly limits: {
    readonly messageBytes: number;
    readonly notificationsPerSecond: number;
    readonly pendingPerUpstream: number;
  };
}

/** One session's way to an upstream over HTTP: each request is an exchange of its own. */
export function createHttpLink(options: HttpLinkOptions): BaseLink {
  const { server, manner, binding, limits } = options;
  const pending = createPendingCalls();
  const sendings = new Map<number, Sending>();
  const rate = createRateLimit(limits.notificationsPerSecond);
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  async function exchange(call: Call, outgoing: Outgoing, waiting: PendingCall): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      const sending = send(server, 'POST', manner.headers(call.message, outgoing, call.headers), outgoing.bytes);
      sendings.set(waiting.upstreamId, sending);
      const response = await sending.response;
      if ((await manner.inspect(call.message, response)) && attempt === 0) {
        response.resume();
        continue;
      }
      await read(call, response, waiting);
      return;
    }
  }

  async function read(call: Call, response: IncomingMessage, waiting: PendingCall): Promise<void> {
    const status = response.statusCode ?? 0;
    // A login the upstream wants is between us and it: the caller must not take it for our own.
    if (status === 401 || status === 403 || status === 407) {
      response.resume();
      throw failure(server.name, response);
    }
    await readAnswer(response, {
      server: server.name,
      maxBytes: limits.messageBytes,
      onMessage(message) {
        if (message.kind !== 'response') {
          hear(message, pending.get(waiting.upstreamId) ?? waiting, response);
          return false;
        }
        const ours = message.id === String(waiting.upstreamId) || (message.id === 'null' && status >= 400);
        // A bridge may have let the first caller go: whoever waits by now gets the answer.
        const now = ours ? pending.take(waiting.upstreamId) : undefined;
        if (now === undefined) return false;
        manner.completed(call.message, message);
        const bytes =
          memberOf(message.shape, 'id') === undefined
            ? errorMessage(now.clientId, -32603, 'The server answered without an id')
            : responseTowardsClient(message, now, binding);
        now.settle({ kind: 'message', bytes, status: status >= 400 && status < 500 ? status : 200 });
        return true;
      },
    });
    pending.take(waiting.upstreamId)?.fail(brokenOff(server.name));
  }

  function hear(message: Message, call: PendingCall | undefined, response?: IncomingMessage): void {
    if (!rate.admit()) return;
    if (message.kind === 'request' && manner.era === 'modern') return;
    const sent: Sent = {
      upstream: server,
      link,
      message,
      pending,
      callers: [...callers],
      binding,
      call,
      respond: (bytes) => post(bytes, message),
    };
    void options.outward(sent).then(({ full }) => {
      if (full === undefined || full.gone || response === undefined) return;
      response.pause();
      const resume = () => void response.resume();
      full.onDrain(resume);
      full.onGone(resume);
    });
  }

  // Nobody waits for these; what the upstream answers is let go.
  function post(bytes: Buffer, message: Message): void {
    const sending = send(server, 'POST', manner.headers(message, { name: '', taskId: undefined }, {}), bytes);
    sending.response.then(
      (response) => response.resume(),
      () => {},
    );
  }

  function forget(call: PendingCall): void {
    sendings.get(call.upstreamId)?.abort();
    sendings.delete(call.upstreamId);
  }

  const link: BaseLink = {
    sessionId: options.sessionId,
    server: server.name,
    era: manner.era,
    get busy() {
      return pending.size > 0;
    },
    get closed() {
      return closing !== undefined;
    },
    pending,
    ready: () => manner.prepare(),

    async request(call) {
      if (closing !== undefined) throw closing;
      if (pending.size >= limits.pendingPerUpstream) throw new AmbitError('OVERLOADED');
      await manner.prepare();
      const { message } = call;
      const upstreamId = pending.nextId();
      const outgoing = towardsUpstream(message, call.edits, upstreamId, binding);
      return new Promise<Reply>((settle, fail) => {
        const waiting: PendingCall = {
          upstreamId,
          clientId: message.id as string,
          method: message.method,
          name: outgoing.name,
          progressToken: outgoing.progressToken,
          wantsLogs: memberOf(message.meta, 'io.modelcontextprotocol/logLevel') !== undefined,
          channel: call.channel,
          caller: call.caller,
          namesAsker: call.namesAsker ?? false,
          settle,
          fail,
          timeoutMs: message.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : server.timeoutMs,
          lastHeardAt: Date.now(),
        };
        pending.add(waiting);
        if (call.cancelOnGone) {
          call.channel.onGone(() => {
            if (pending.take(upstreamId) === undefined) return;
            if (manner.era === 'handshake') {
              const params = { requestId: upstreamId, reason: 'the caller is gone' };
              post(notificationMessage('notifications/cancelled', params), message);
            }
            forget(waiting);
            settle({ kind: 'accepted' });
          });
        }
        exchange(call, outgoing, waiting)
          .catch((error: Error) => {
            pending.take(upstreamId)?.fail(error);
          })
          .finally(() => sendings.delete(upstreamId));
      });
    },

    notify(call) {
      try {
        post(notificationTowardsUpstream(call.message, call.edits, binding), call.message);
      } catch {
        // A notification about somebody else's task: there is nobody to tell.
      }
    },

    answer(upstreamId, message, edits) {
      post(
        notificationTowardsUpstream(message, [...edits, replaceValue(idMember(message), upstreamId)], binding),
        message,
      );
    },

    cancel(from, requestId, message) {
      const call = pending.find(from, requestId);
      if (call === undefined) return;
      const named = memberOf(message.params?.shape, 'requestId');
      pending.take(call.upstreamId);
      if (named !== undefined && manner.era === 'handshake') {
        const edits = [...stripOurKeys(message), replaceValue(named, String(call.upstreamId))];
        post(notificationTowardsUpstream(message, edits, binding), message);
      }
      forget(call);
      call.settle({ kind: 'accepted' });
    },

    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      if (callers.size === 0) void link.close(new AmbitError('SESSION_ENDED'));
    },
    listen({ stream }) {
      if (stream !== undefined) link.openStream(stream);
    },
    openStream(stream) {
      manner.listen(stream, (message) => {
        if (message.kind !== 'response') hear(message, undefined);
      });
    },

    tend(now) {
      for (const call of pending.overdue(now)) {
        pending.take(call.upstreamId);
        forget(call);
        const seconds = call.timeoutMs / 1000;
        call.fail(
          new AmbitError('UPSTREAM_TIMEOUT', {
            what: `The server "${server.name}" was silent for ${seconds} seconds.`,
          }),
        );
      }
    },

    async close(reason) {
      if (closing !== undefined) return;
      closing = reason;
      for (const call of pending.drain()) {
        forget(call);
        call.fail(reason);
      }
      manner.close();
    },
  };
  return link;
}
