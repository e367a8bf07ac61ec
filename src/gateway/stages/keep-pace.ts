import type { RequestPace } from '../../sessions/request-pace.ts';
import type { Stage } from '../chain.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { Visit } from '../visit.ts';

/**
 * Before `authorize`: what is no call of a tool is counted by no quota, and comes no faster than the pace of its
 * session. Calls of tools are counted by `admit`.
 */
export function keepPace<E extends InSession<Arrived> | InSession<Visit>, Out>(pace: RequestPace): Stage<E, E, Out> {
  return function keepPace(exchange, next) {
    if (!isPacedElsewhere(exchange)) pace.take(exchange.session.id);
    return next(exchange);
  };
}

function isPacedElsewhere(exchange: InSession<Arrived> | InSession<Visit>): boolean {
  if ('intent' in exchange) return false;
  const { message, looksAs } = exchange;
  // Whoever looks through the sessions of a user is counted once, where the looking begins.
  return looksAs !== undefined || (message.method === 'tools/call' && message.kind === 'request');
}
