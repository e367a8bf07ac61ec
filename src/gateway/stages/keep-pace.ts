import type { RequestPace } from '../../sessions/request-pace.ts';
import type { Arrived, SessionExchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';
import type { TransportRequest } from './handle-transport.ts';

/** Limits how fast a session sends what is not a call of a tool. No quota counts that; `admit` counts calls of tools. */
export function keepPace(
  pace: RequestPace,
): BeforeStage<SessionExchange<Arrived> | SessionExchange<TransportRequest>, void> {
  return {
    name: 'keepPace',
    refuses: ['QUOTA_EXCEEDED'],
    isNeeded: ({ isToolCall }) => !isToolCall,
    before(exchange) {
      // Requests that look through all sessions of a user are counted once, in `listForUser`.
      if ('listAsSession' in exchange && exchange.listAsSession !== undefined) return;
      pace.take(exchange.session.id);
    },
  };
}
