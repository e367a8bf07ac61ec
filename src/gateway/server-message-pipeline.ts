import { markForgedBlocks } from '../context/for-models/mark-forged-blocks.ts';
import { AmbitError, errorTable } from '../errors.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Channel } from '../protocol/channel.ts';
import { composeError, composeNotification, composeResult, formatRefusal } from '../protocol/compose-message.ts';
import { applyEdits, replaceValue } from '../protocol/json/edit.ts';
import { findMember, readRawValue, readStringValue } from '../protocol/json/scan.ts';
import { readMessage } from '../protocol/message.ts';
import { maxPushes } from '../upstreams/links/caller.ts';
import type { ServerMessage, ServerMessageDelivery } from '../upstreams/links/link.ts';
import { findQuestionRefusal, findQuestionRefusalIn, prefixAsker } from '../upstreams/links/relay/questions.ts';
import { isAboutForeignTask, toClientPush } from '../upstreams/links/relay/towards-client.ts';
import { composeStages } from './compose.ts';
import { announcementMethods, findTargets, type PushTarget } from './routing/push-targets.ts';
import { type AroundStage, addToExchange, type BeforeStage, type Next, startPipeline } from './stage.ts';

type AttributedMessage = ServerMessage & { readonly targets: readonly PushTarget[] };
type PermittedMessage = AttributedMessage & { readonly permitted: true };

const maxMethodLength = 200;
const undelivered: ServerMessageDelivery = { delivered: false, full: undefined };

/**
 * The pipeline of messages that a server sends by itself. Every stage passes on synchronously, so that a message which
 * was sent before an answer reaches the client before that answer.
 */
export function serverMessagePipeline(journal: Journal): Next<ServerMessage, ServerMessageDelivery> {
  const stages = startPipeline<ServerMessage, ServerMessageDelivery>()
    // First, so that every refusal is written to the journal.
    .use(recordPush(journal))
    // Before `permit`: a ping of a server is answered without a client.
    .use(attribute())
    .use(permit())
    .end(deliver());
  return composeStages(stages);
}

function recordPush(journal: Journal): AroundStage<ServerMessage, unknown, ServerMessageDelivery> {
  return {
    name: 'recordPush',
    refuses: [],
    async around(sent, next) {
      let outcome = 'ok';
      try {
        const delivery = await next(sent);
        if (!delivery.delivered) outcome = 'undelivered';
        return delivery;
      } catch (error) {
        if (!(error instanceof AmbitError)) throw error;
        outcome = error.code;
        if (sent.message.id !== undefined && sent.message.kind === 'request') {
          const { rpc } = errorTable[error.code];
          sent.respond(composeError(sent.message.id, rpc, formatRefusal(error)));
        }
        return undelivered;
      } finally {
        // Delivered progress belongs to its call, which has its own line.
        if (sent.message.method !== 'notifications/progress' || outcome !== 'ok') {
          journal.record({
            kind: 'push',
            sessionId: sent.link.sessionId ?? findSoleTarget(sent),
            server: sent.upstream.name,
            method: shortenMethod(sent.message.method),
            outcome,
            bytes: sent.message.bytes.length,
          });
        }
      }
    },
  };
}

/** Shortens a method, because servers can send many messages with any method. */
function shortenMethod(method: string): string {
  return method.length > maxMethodLength ? `${method.slice(0, maxMethodLength)}…` : method;
}

function attribute(): AroundStage<ServerMessage, Pick<AttributedMessage, 'targets'>, ServerMessageDelivery> {
  return {
    name: 'attribute',
    refuses: ['CLIENT_UNREACHABLE'],
    async around(sent, next) {
      const targets = findTargets(sent);
      const canHold = sent.holdQuestion !== undefined && sent.soleSessionId !== null && sent.message.method !== 'ping';
      const isAskable = targets.length > 0 || canHold;
      if (!isAskable && sent.message.kind === 'request' && sent.message.id !== undefined) {
        // A server that sends a ping must not wait for a client.
        if (sent.message.method === 'ping') {
          sent.respond(composeResult(sent.message.id, '{}'));
          return undelivered;
        }
        throw sent.soleSessionId === null ? unattributableError() : new AmbitError('CLIENT_UNREACHABLE');
      }
      return next(addToExchange(sent, { targets }));
    },
  };
}

/** Finds the session of the only receiver, for links that belong to no session. */
function findSoleTarget(sent: ServerMessage & { readonly targets?: readonly PushTarget[] }): string | undefined {
  const [target, ...more] = sent.targets ?? [];
  return more.length === 0 ? target?.binding.sessionId : undefined;
}

function unattributableError(): AmbitError {
  return new AmbitError('CLIENT_UNREACHABLE', {
    what: 'Several sessions share this process, and the request does not say which session it belongs to.',
    hint: 'Send the request as part of the answer to a call (MCP 2026-07-28), or ask the operator to give the server a narrower scope.',
  });
}

function permit(): BeforeStage<AttributedMessage, Pick<PermittedMessage, 'permitted'>> {
  return {
    name: 'permit',
    refuses: ['PUSH_DENIED', 'UPSTREAM_FAILED'],
    before({ upstream, message }) {
      const isRequest = message.kind === 'request';
      const refusal = isRequest
        ? findQuestionRefusal(upstream, message.method)
        : findQuestionRefusalIn(upstream, message);
      if (refusal !== undefined) throw refusal;
      return { permitted: true };
    },
  };
}

function deliver(): Next<PermittedMessage, ServerMessageDelivery> {
  return async function deliver(sent) {
    if (sent.message.kind === 'request' && sent.holdQuestion !== undefined) {
      if (!sent.holdQuestion(sent)) throw new AmbitError('CLIENT_UNREACHABLE');
      return { delivered: true, full: undefined };
    }
    let delivered = false;
    let full: Channel | undefined;
    for (const target of sent.targets) {
      if (target.channel.isGone() || sent.fullChannels?.has(target.channel)) continue;
      if (isAboutForeignTask(sent.message, target.binding)) continue;
      // Questions, progress and log lines can also reach the model.
      const bytes = markForgedBlocks(
        sent.message.kind === 'request' ? createPush(sent, target) : createNotification(sent, target),
      );
      delivered = true;
      if (!target.channel.emit(bytes)) full = target.channel;
    }
    if (!delivered && sent.message.kind === 'request') throw new AmbitError('CLIENT_UNREACHABLE');
    return { delivered, full };
  };
}

function createNotification(sent: PermittedMessage, target: PushTarget): Buffer {
  const { method, bytes, params } = sent.message;
  if (sent.soleSessionId === null && target.names.subscriptionId === undefined && announcementMethods.has(method)) {
    // The message goes to several sessions, so it contains only what changed.
    const uri = readStringValue(bytes, findMember(params?.shape, 'uri'));
    return composeNotification(method, uri === undefined ? undefined : { uri: target.names.uri ?? uri });
  }
  return toClientPush(sent.message, target.binding, target.names);
}

function createPush(sent: PermittedMessage, target: PushTarget): Buffer {
  const { caller } = target;
  if (caller === undefined) throw new AmbitError('CLIENT_UNREACHABLE');
  if (caller.pushes.size >= maxPushes) throw new AmbitError('OVERLOADED');
  const id = String(caller.nextPushId());
  const token = findMember(sent.message.meta, 'progressToken');
  caller.pushes.set(id, {
    link: sent.link,
    upstreamId: sent.message.id as string,
    progressToken: token === undefined ? undefined : readRawValue(sent.message.bytes, token),
  });
  const bytes = toClientPush(sent.message, target.binding, { id });
  return caller.parent === undefined ? bytes : addAskerName(bytes, sent.upstream.name);
}

function addAskerName(bytes: Buffer, server: string): Buffer {
  const message = readMessage(bytes);
  if (message.params === undefined) return bytes;
  const params = prefixAsker(server, message.method, readRawValue(bytes, message.params));
  return applyEdits(bytes, [replaceValue(message.params, params)]);
}
