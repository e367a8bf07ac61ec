import { defused } from '../context/for-models/defuse.ts';
import { AmbitError, errorTable } from '../errors.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { Channel } from '../protocol/channel.ts';
import { errorMessage, notificationMessage, refusalText, resultMessage } from '../protocol/compose.ts';
import { applyEdits, replaceValue } from '../protocol/json/edit.ts';
import { memberOf, rawAt, stringAt } from '../protocol/json/scan.ts';
import { readMessage } from '../protocol/message.ts';
import { mostPushes } from '../upstreams/links/caller.ts';
import { nameAsker } from '../upstreams/links/relay/name-asker.ts';
import { refusalOfQuestion, refusalOfQuestionsIn } from '../upstreams/links/relay/refused-question.ts';
import { pushTowardsClient, tellsOfForeignTask } from '../upstreams/links/relay/towards-client.ts';
import type { Delivery, Sent } from '../upstreams/links/sent.ts';
import { composeStages } from './compose.ts';
import { announcementMethods, findTargets, type PushTarget } from './routing/push-targets.ts';
import { type AroundStage, addToExchange, type BeforeStage, type Next, startPipeline } from './stage.ts';

type AttributedMessage = Sent & { readonly targets: readonly PushTarget[] };
type PermittedMessage = AttributedMessage & { readonly permitted: true };

const maxMethodLength = 200;
const undelivered: Delivery = { delivered: false, full: undefined };

/**
 * The pipeline of messages that a server sends by itself. Every stage passes on synchronously, so that a message which
 * was sent before an answer reaches the client before that answer.
 */
export function serverMessagePipeline(journal: Journal): Next<Sent, Delivery> {
  const stages = startPipeline<Sent, Delivery>()
    // First, so that every refusal is written to the journal.
    .use(recordPush(journal))
    // Before `permit`: a ping of a server is answered without a client.
    .use(attribute())
    .use(permit())
    .end(deliver());
  return composeStages(stages);
}

function recordPush(journal: Journal): AroundStage<Sent, unknown, Delivery> {
  return { name: 'recordPush', refuses: [], around: recordOutcome };

  async function recordOutcome<Here extends Sent>(sent: Here, next: Next<Here, Delivery>): Promise<Delivery> {
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
        sent.respond(errorMessage(sent.message.id, rpc, refusalText(error)));
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
  }
}

/** Shortens a method, because servers can send many messages with any method. */
function shortenMethod(method: string): string {
  return method.length > maxMethodLength ? `${method.slice(0, maxMethodLength)}…` : method;
}

function attribute(): AroundStage<Sent, Pick<AttributedMessage, 'targets'>, Delivery> {
  return { name: 'attribute', refuses: ['CLIENT_UNREACHABLE'], around: addTargets };

  async function addTargets<Here extends Sent>(
    sent: Here,
    next: Next<Here & Pick<AttributedMessage, 'targets'>, Delivery>,
  ): Promise<Delivery> {
    const targets = findTargets(sent);
    const held = sent.hold !== undefined && sent.sole !== null && sent.message.method !== 'ping';
    const askable = targets.length > 0 || held;
    if (!askable && sent.message.kind === 'request' && sent.message.id !== undefined) {
      // A server that sends a ping must not wait for a client.
      if (sent.message.method === 'ping') {
        sent.respond(resultMessage(sent.message.id, '{}'));
        return undelivered;
      }
      throw sent.sole === null ? unattributableError() : new AmbitError('CLIENT_UNREACHABLE');
    }
    return next(addToExchange(sent, { targets }));
  }
}

/** Finds the session of the only receiver, for links that belong to no session. */
function findSoleTarget(sent: Sent & { readonly targets?: readonly PushTarget[] }): string | undefined {
  const [target, ...more] = sent.targets ?? [];
  return more.length === 0 ? target?.binding.sessionId : undefined;
}

function unattributableError(): AmbitError {
  return new AmbitError('CLIENT_UNREACHABLE', {
    what: 'Several sessions share this process, and nothing says which of them is asked.',
    hint: 'Ask in the answer to a call (MCP 2026-07-28), or let the operator give the server a narrower scope.',
  });
}

function permit(): BeforeStage<AttributedMessage, Pick<PermittedMessage, 'permitted'>> {
  return {
    name: 'permit',
    refuses: ['PUSH_DENIED', 'UPSTREAM_FAILED'],
    before({ upstream, message }) {
      const isRequest = message.kind === 'request';
      const refusal = isRequest ? refusalOfQuestion(upstream, message.method) : refusalOfQuestionsIn(upstream, message);
      if (refusal !== undefined) throw refusal;
      return { permitted: true };
    },
  };
}

function deliver(): Next<PermittedMessage, Delivery> {
  return async function deliver(sent) {
    if (sent.message.kind === 'request' && sent.hold !== undefined) {
      if (!sent.hold(sent)) throw new AmbitError('CLIENT_UNREACHABLE');
      return { delivered: true, full: undefined };
    }
    let delivered = false;
    let full: Channel | undefined;
    for (const target of sent.targets) {
      if (target.channel.isGone() || sent.clogged?.has(target.channel)) continue;
      if (tellsOfForeignTask(sent.message, target.binding)) continue;
      // Questions, progress and log lines can also reach the model.
      const bytes = defused(
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
  if (sent.sole === null && target.names.subscriptionId === undefined && announcementMethods.has(method)) {
    // The message goes to several sessions, so it contains only what changed.
    const uri = stringAt(bytes, memberOf(params?.shape, 'uri'));
    return notificationMessage(method, uri === undefined ? undefined : { uri: target.names.uri ?? uri });
  }
  return pushTowardsClient(sent.message, target.binding, target.names);
}

function createPush(sent: PermittedMessage, target: PushTarget): Buffer {
  const { caller } = target;
  if (caller === undefined) throw new AmbitError('CLIENT_UNREACHABLE');
  if (caller.pushes.size >= mostPushes) throw new AmbitError('OVERLOADED');
  const id = String(caller.nextPushId());
  const token = memberOf(sent.message.meta, 'progressToken');
  caller.pushes.set(id, {
    link: sent.link,
    upstreamId: sent.message.id as string,
    progressToken: token === undefined ? undefined : rawAt(sent.message.bytes, token),
  });
  const bytes = pushTowardsClient(sent.message, target.binding, { id });
  return caller.parent === undefined ? bytes : addAskerName(bytes, sent.upstream.name);
}

function addAskerName(bytes: Buffer, server: string): Buffer {
  const message = readMessage(bytes);
  if (message.params === undefined) return bytes;
  const params = nameAsker(server, message.method, rawAt(bytes, message.params));
  return applyEdits(bytes, [replaceValue(message.params, params)]);
}
