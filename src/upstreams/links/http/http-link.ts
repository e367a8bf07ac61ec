import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import type { Channel, Era, Reply } from '../../../protocol/channel.ts';
import { errorMessage, notificationMessage } from '../../../protocol/compose.ts';
import { replaceValue } from '../../../protocol/json/edit.ts';
import { memberOf } from '../../../protocol/json/scan.ts';
import { idMember, type Message } from '../../../protocol/message.ts';
import { stripOurKeys } from '../../../protocol/our-keys.ts';
import type { Session } from '../../../sessions/session.ts';
import { placeOf } from '../../../sessions/session-views.ts';
import type { Caller } from '../caller.ts';
import type { BaseLink, Call } from '../link.ts';
import { createPendingCalls, type PendingCall } from '../relay/pending.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { statusOfError } from '../relay/status-of-error.ts';
import { responseTowardsClient } from '../relay/towards-client.ts';
import {
  type Binding,
  nameOf,
  notificationTowardsUpstream,
  type Outgoing,
  progressTokenOf,
  towardsUpstream,
} from '../relay/towards-upstream.ts';
import type { Delivery, Outward, Sent } from '../sent.ts';
import { settleCall } from '../settle-call.ts';
import { holdStream, isHeld, releaseStream } from './hold-stream.ts';
import { brokenOff, failure, readAnswer } from './read-answer.ts';
import { withToken } from './request-headers.ts';
import { letGo, type Remote, type Sending, send } from './send.ts';

/** What differs between the eras: the headers of a request, and what a session of the upstream's own needs. */
export interface HttpManner {
  readonly era: Era;
  /** Before the first request; throws when the upstream does not speak this era. */
  prepare(): Promise<void>;
  headers(
    message: Message,
    outgoing: Pick<Outgoing, 'name' | 'taskId'>,
    params: Readonly<Record<string, string>>,
  ): Record<string, string>;
  /** Looks at the head of a first answer; true asks for the request to be sent once more. */
  inspect(message: Message, response: IncomingMessage, headers: Readonly<Record<string, string>>): Promise<boolean>;
  /** After the final message of a request. */
  completed(message: Message, answer: Message): void;
  /** Opens the upstream's stream for what no request waits for. */
  listen(stream: Channel, receive: (message: Message, response: IncomingMessage) => void): void;
  close(): void;
}

export interface HttpLinkOptions {
  readonly server: Remote;
  readonly session: Session;
  readonly manner: HttpManner;
  readonly binding: Binding;
  readonly outward: Outward;
  readonly limits: {
    readonly messageBytes: number;
    readonly notificationsPerSecond: number;
    readonly pendingPerUpstream: number;
  };
}

const partingMs = 1000;

/** One session's way to an upstream over HTTP: each request is an exchange of its own. */
export function createHttpLink(options: HttpLinkOptions): BaseLink {
  const { server, manner, binding, limits } = options;
  const pending = createPendingCalls();
  const sendings = new Map<number, Sending>();
  const rate = createRateLimit(limits.notificationsPerSecond);
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;

  async function exchange(call: Call, waiting: PendingCall): Promise<void> {
    await manner.prepare();
    // What goes along for the user may have to be waited for.
    const mayGo = () => void call.acting?.confirm?.();
    for (let attempt = 0; ; attempt++) {
      // Cancelled, timed out or ended meanwhile: then the upstream must not get to see it.
      if (pending.get(waiting.upstreamId) === undefined) return;
      const outgoing = towardsUpstream(call.message, call.edits, waiting.upstreamId, binding, call.acting);
      const own = withToken(manner.headers(call.message, outgoing, call.headers()), outgoing.token);
      const headers = { ...own, ...call.acting?.trace?.headers };
      const sending = send(server, 'POST', headers, outgoing.bytes, undefined, mayGo);
      sendings.set(waiting.upstreamId, sending);
      const response = await sending.response;
      if (attempt === 0 && (await manner.inspect(call.message, response, headers))) {
        letGo(response);
        continue;
      }
      if (response.statusCode === 404 && 'mcp-session-id' in headers) {
        letGo(response);
        throw sessionLost(server.name);
      }
      await read(call, response, waiting);
      return;
    }
  }

  async function read(call: Call, response: IncomingMessage, waiting: PendingCall): Promise<void> {
    const status = response.statusCode ?? 0;
    // A login the upstream wants is between us and it: the caller must not take it for our own.
    if (status === 401 || status === 403 || status === 407) {
      letGo(response);
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
        // A bridge may have put another in the place of the one who asked.
        const asker = ours ? pending.take(waiting.upstreamId) : undefined;
        if (asker === undefined) return false;
        manner.completed(call.message, message);
        settleCall(server, asker, message, () => ({
          kind: 'message',
          bytes:
            memberOf(message.shape, 'id') === undefined
              ? errorMessage(asker.clientId, -32603, 'The server answered without an id')
              : responseTowardsClient(message, asker, binding),
          status: statusTowardsClient(status, message, manner.era),
        }));
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
    const holdBack = ({ full }: Delivery) => {
      if (full === undefined || full.isGone() || response === undefined || isHeld(response, 'full')) return;
      holdStream(response, 'full');
      const resume = () => releaseStream(response, 'full');
      full.onDrain(resume);
      full.onGone(resume);
    };
    // What cannot be passed on is lost; it must not take the gateway with it.
    options.outward(sent).then(holdBack, () => {});
  }

  // Nobody waits for these; what the upstream answers is let go.
  function post(bytes: Buffer, message: Message): void {
    const headers = manner.headers(message, { name: '', taskId: undefined }, {});
    send(server, 'POST', headers, bytes, server.timeoutMs).response.then(letGo, () => {});
  }

  function forget(call: PendingCall): void {
    sendings.get(call.upstreamId)?.abort();
    sendings.delete(call.upstreamId);
  }

  const link: BaseLink = {
    sessionId: options.session.id,
    place: placeOf(options.session),
    server: server.name,
    era: manner.era,
    isBusy: () => pending.youngest((call) => call.method !== 'subscriptions/listen') !== undefined,
    isClosed: () => closing !== undefined,
    pending,
    ready: () => manner.prepare(),

    async request(call) {
      if (closing !== undefined) throw closing;
      if (pending.size() >= limits.pendingPerUpstream) throw new AmbitError('OVERLOADED');
      const { message } = call;
      const upstreamId = pending.nextId();
      return new Promise<Reply>((settle, fail) => {
        const waiting: PendingCall = {
          upstreamId,
          clientId: message.id as string,
          method: message.method,
          name: nameOf(message),
          progressToken: progressTokenOf(message),
          wantsLogs: memberOf(message.meta, 'io.modelcontextprotocol/logLevel') !== undefined,
          channel: call.channel,
          caller: call.caller,
          binding,
          namesAsker: call.namesAsker ?? false,
          settle,
          fail,
          timeoutMs: message.method === 'subscriptions/listen' ? Number.POSITIVE_INFINITY : server.timeoutMs,
          lastHeardAt: Date.now(),
          lost: false,
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
        exchange(call, waiting)
          .catch((error: Error) => pending.take(upstreamId)?.fail(error))
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
        const edits = [...stripOurKeys(message, binding.keys?.()), replaceValue(named, String(call.upstreamId))];
        post(notificationTowardsUpstream(message, edits, binding), message);
      }
      forget(call);
      call.settle({ kind: 'accepted' });
    },

    attached: () => callers.size,
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      if (callers.size === 0) void link.close(new AmbitError('SESSION_ENDED'));
    },
    listen({ stream }) {
      if (stream !== undefined) link.openStream(stream);
    },
    openStream(stream) {
      manner.listen(stream, (message, response) => {
        if (message.kind !== 'response') hear(message, undefined, response);
      });
    },

    leave() {},

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
      // Time for what was said last to be taken.
      setTimeout(() => server.agent.destroy(), partingMs).unref();
    },
  };
  return link;
}

/** To a client of the handshake era 404 says that its own session is gone; in the modern one, that there is no such method. */
function statusTowardsClient(status: number, answer: Message, era: Era): number {
  if (status === 404) return era === 'modern' ? statusOfError(answer) : 200;
  return status >= 400 && status < 500 ? status : 200;
}

/** The session is between us and the upstream: its client has another, with Ambit. */
function sessionLost(server: string): AmbitError {
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The server "${server}" does not know the session that it has just given.`,
    hint: 'Try again later; the session with Ambit goes on.',
  });
}
