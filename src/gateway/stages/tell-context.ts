import { defused } from '../../governance/defuse.ts';
import type { Governance } from '../../governance/governance.ts';
import type { Session } from '../../sessions/session.ts';
import type { Callers } from '../../upstreams/caller.ts';
import type { Reply } from '../../wire/channel.ts';
import { readMessage } from '../../wire/message.ts';
import { memberOf } from '../../wire/scan.ts';
import { allServers } from '../aggregate/for-all.ts';
import type { Next, Stage } from '../chain.ts';
import type { Approach, Arrived, InSession } from '../exchange.ts';
import { ownServer } from '../own-tools.ts';

/**
 * Around `record`, so that a refusal, which the model reads like any other result, carries what is due as well. It only
 * adds to replies that are made; on the way in it does nothing.
 */
export function tellContext(governance: Governance, callers: Callers): Stage<Arrived, Arrived, Reply> {
  async function called(exchange: Arrived, next: Next<Arrived, Reply>): Promise<Reply> {
    const reply = clean(exchange, await next(exchange));
    const session = sessionOf(exchange);
    if (session === undefined) return reply;
    const { id: sessionId, userId, workspaceId } = session;
    const transportId = transportOf(exchange, sessionId);
    // Whoever has not shaken hands is no client yet.
    if (transportId === undefined && exchange.era === 'handshake') return reply;
    return governance.carry({ sessionId, userId, workspaceId, transportId }, reply);
  }

  /** Another's, or one that has ended, is none. */
  function transportOf({ era, transportId, server }: Arrived, sessionId: string): string | undefined {
    const caller = era === 'modern' || transportId === undefined ? undefined : callers.get(transportId);
    return caller?.sessionId === sessionId && caller.server === server ? caller.id : undefined;
  }

  async function prompted(exchange: Arrived, next: Next<Arrived, Reply>): Promise<Reply> {
    const reply = clean(exchange, await next(exchange));
    const session = sessionOf(exchange);
    return session === undefined ? reply : governance.aroundPrompt(session, reply);
  }

  async function described(exchange: Arrived, next: Next<Arrived, Reply>): Promise<Reply> {
    const reply = cleaned(await next(exchange));
    const session = sessionOf(exchange);
    return session === undefined ? reply : governance.announced(session, reply);
  }

  return function tellContext(exchange, next) {
    const { kind, method } = exchange.message;
    if (kind !== 'request') return next(exchange);
    if (method === 'tools/call') return called(exchange, next);
    if (method === 'prompts/get') return prompted(exchange, next);
    if (method === 'initialize' || method === 'server/discover') return described(exchange, next);
    return next(exchange).then(cleaned);
  };
}

/** Before `admit`, for which every message is use: how long a modern session has been silent. */
export function noteSilence<E extends Approach & { readonly message: Arrived['message'] }, Out>(
  governance: Governance,
): Stage<InSession<E>, InSession<E>, Out> {
  return function noteSilence(exchange, next) {
    const { era, message, session } = exchange;
    if (era !== 'modern' || message.method !== 'tools/call') return next(exchange);
    const looking = governance.arrived(session.id, session.createdAt);
    return looking === undefined ? next(exchange) : looking.then(() => next(exchange));
  };
}

/** An exchange grows in place: once it has found its session, it is there whatever came of it. */
function sessionOf(exchange: Arrived): Session | undefined {
  return (exchange as Arrived & { readonly session?: Session | undefined }).session;
}

/** What a server says must not pass for ours; what Ambit's own tools return, files among it, stays as it is. */
function clean({ server, entry }: Arrived, reply: Reply): Reply {
  const own = server === allServers ? entry.upstream === undefined && entry.cached === undefined : server === ownServer;
  return own && !isRefusal(reply) ? reply : cleaned(reply);
}

/** Whether the reply is a refusal by Ambit, which may quote a server. */
function isRefusal(reply: Reply): boolean {
  if (reply.kind !== 'message' || !reply.bytes.includes('ambit/error')) return false;
  return memberOf(readMessage(reply.bytes).meta, 'ambit/error') !== undefined;
}

function cleaned(reply: Reply): Reply {
  if (reply.kind !== 'message') return reply;
  const bytes = defused(reply.bytes);
  return bytes === reply.bytes ? reply : { ...reply, bytes };
}
