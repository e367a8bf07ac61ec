import type { RequestRateLimit } from '../../sessions/request-rate.ts';
import type { BeforeStage } from '../stage.ts';
import type { SessionRequest } from './handle-transport.ts';

/** Limits the rate of all requests except calls of tools, which `admit` counts. */
export function keepPace(pace: RequestRateLimit): BeforeStage<SessionRequest, void> {
  return {
    name: 'keepPace',
    refuses: ['QUOTA_EXCEEDED'],
    isNeeded: ({ isToolCall }) => !isToolCall,
    before(exchange) {
      // Lists over all sessions of a user are counted once, in `listForUser`.
      if ('listAsSession' in exchange && exchange.listAsSession !== undefined) return;
      pace.take(exchange.session.id);
    },
  };
}
