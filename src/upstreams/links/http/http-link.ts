import type { IncomingMessage } from 'node:http';
import { AmbitError } from '../../../errors.ts';
import type { Channel, FinalReply } from '../../../protocol/channel.ts';
import { composeNotification } from '../../../protocol/compose-message.ts';
import { replaceValue } from '../../../protocol/json/edit.ts';
import { findMember } from '../../../protocol/json/scan.ts';
import { findIdMember, type Message, readMessage } from '../../../protocol/message.ts';
import { stripReservedMeta } from '../../../protocol/reserved-meta.ts';
import { sessionScopeKey } from '../../../sessions/narrowed-sessions.ts';
import type { Caller } from '../caller.ts';
import type { BaseLink, ServerMessage } from '../link.ts';
import { createPendingCall, createPendingCalls, failCall, type PendingCall } from '../relay/pending-calls.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { readTargetName, toUpstreamNotification } from '../relay/towards-upstream.ts';
import { silenceError } from '../upstream-errors.ts';
import { holdStream, isHeld, releaseStream } from './read-answer.ts';
import {
  createStreamReceiver,
  type HttpLinkOptions,
  type LinkParts,
  postMessage,
  postNotification,
  sendCall,
} from './send-call.ts';

const closeDelayMs = 1000;

/** The link of one session to an upstream over HTTP: each request is an exchange of its own. */
export function createHttpLink(options: HttpLinkOptions): BaseLink {
  const { server, dialect, binding, limits } = options;
  const pending = createPendingCalls();
  const sendings: LinkParts['sendings'] = new Map();
  const rate = createRateLimit(limits.notificationsPerSecond);
  const callers = new Set<Caller>();
  let closing: AmbitError | undefined;
  const streamed: LinkParts['streamed'] = new Map();
  const parts: LinkParts = { ...options, pending, sendings, streamed, initializing: undefined, forward };

  function forward(message: Message, call: PendingCall | undefined, response: IncomingMessage): void {
    if (!rate.admit()) return;
    if (message.kind === 'request' && dialect.era === 'modern') return;
    const sent: ServerMessage = {
      upstream: server,
      link,
      message,
      pending,
      callers: [...callers],
      binding,
      call,
      respond: (bytes) => void postMessage(parts, bytes, message),
    };
    // A message that cannot be passed on is lost; its failure must not end the gateway.
    options.onServerMessage(sent).then(
      ({ full }) => pauseFor(full, response),
      () => {},
    );
  }

  dialect.attach?.(createStreamReceiver(parts));

  function abortSending({ upstreamId }: PendingCall): void {
    streamed.delete(upstreamId);
    sendings.get(upstreamId)?.abort();
    sendings.delete(upstreamId);
  }

  /** Takes a call that is given up and tells the upstream. In the modern era the closed request tells it. */
  function cancelUpstream(call: PendingCall, reason: string): void {
    const { upstreamId } = call;
    pending.take(upstreamId);
    if (dialect.era === 'handshake' && call.isSent) {
      const bytes = composeNotification('notifications/cancelled', { requestId: upstreamId, reason });
      void postMessage(parts, bytes, readMessage(bytes));
    }
    abortSending(call);
  }

  function cancelAbandoned(upstreamId: number): void {
    const call = pending.get(upstreamId);
    if (call === undefined) return;
    cancelUpstream(call, 'the caller has disconnected');
    call.settle({ kind: 'accepted' });
  }

  const link: BaseLink = {
    sessionId: options.session.id,
    scopeKey: sessionScopeKey(options.session),
    server: server.name,
    era: dialect.era,
    isBusy: () => pending.findYoungest((call) => call.method !== 'subscriptions/listen') !== undefined,
    isClosed: () => closing !== undefined,
    pending,
    ready: () => dialect.prepare(),

    async request(call) {
      if (closing !== undefined) throw closing;
      if (pending.size() >= limits.pendingPerUpstream) throw new AmbitError('OVERLOADED');
      const { message } = call;
      const upstreamId = pending.nextId();
      return new Promise<FinalReply>((settle, fail) => {
        const name = readTargetName(message);
        const waiting = createPendingCall(call, message, name, upstreamId, binding, server.timeoutMs, settle, fail);
        pending.add(waiting);
        if (call.cancelOnGone) call.channel.onGone(() => cancelAbandoned(upstreamId));
        sendCall(parts, call, waiting)
          .catch((error: Error) => {
            // A call that was given up says nothing about the server.
            const failed = pending.take(upstreamId);
            streamed.delete(upstreamId);
            if (failed === undefined) return;
            server.onFailed(error);
            failCall(failed, error);
          })
          .finally(() => sendings.delete(upstreamId));
      });
    },

    notify: (call) => postNotification(parts, call),

    answer(upstreamId, message, pipelineEdits) {
      const edits = [...pipelineEdits, replaceValue(findIdMember(message), upstreamId)];
      void postMessage(parts, toUpstreamNotification(message, edits, binding), message);
    },

    cancel(from, requestId, message) {
      const call = pending.find(from, requestId);
      if (call === undefined) return;
      const named = findMember(message.params?.shape, 'requestId');
      pending.take(call.upstreamId);
      if (named !== undefined && dialect.era === 'handshake') {
        const edits = [...stripReservedMeta(message, binding.keys?.()), replaceValue(named, String(call.upstreamId))];
        postNotification(parts, { message, edits });
      }
      abortSending(call);
      call.settle({ kind: 'accepted' });
    },

    callerCount: () => callers.size,
    attach: (caller) => void callers.add(caller),
    detach(caller) {
      callers.delete(caller);
      if (callers.size === 0) void link.close(new AmbitError('SESSION_ENDED'));
    },
    listen({ stream }) {
      if (stream !== undefined) link.openStream(stream);
    },
    openStream(stream) {
      dialect.openEventStream(stream, (message, response) => {
        if (message.kind !== 'response') forward(message, undefined, response);
      });
    },

    dropSession() {},
    sweep(now) {
      for (const call of pending.findOverdue(now)) {
        cancelUpstream(call, 'timed out');
        failCall(call, silenceError(server.name, call.timeoutMs));
      }
    },

    async close(reason) {
      if (closing !== undefined) return;
      closing = reason;
      for (const call of pending.drain()) {
        abortSending(call);
        failCall(call, reason);
      }
      dialect.close();
      // The delay lets the last requests reach the upstream.
      setTimeout(() => server.agent.destroy(), closeDelayMs).unref();
    },
  };
  return link;
}

/** Pauses the response of the upstream until a full channel has room again. */
function pauseFor(full: Channel | undefined, response: IncomingMessage): void {
  if (full === undefined || full.isGone() || isHeld(response, 'full')) return;
  holdStream(response, 'full');
  const resume = () => releaseStream(response, 'full');
  full.onDrain(resume);
  full.onGone(resume);
}
