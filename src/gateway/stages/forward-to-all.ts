import type { Reply } from '../../wire/channel.ts';
import type { Aggregate } from '../aggregate/aggregate.ts';
import type { ForAll } from '../aggregate/for-all.ts';
import type { Next } from '../chain.ts';
import { answerPush, progressOfPush } from './answer-push.ts';

/** `forward` at the address of all servers. */
export function forwardToAll(aggregate: Aggregate): Next<ForAll, Reply> {
  return async function forwardToAll(exchange) {
    const { message } = exchange;
    if (message.kind === 'request') return aggregate.request(exchange);
    if (message.kind === 'response') return answerPush(exchange);
    return message.method === 'notifications/progress' ? progressOfPush(exchange) : aggregate.notify(exchange);
  };
}
