import type { RequestPace } from '../../sessions/request-rate.ts';
import type { Arrived, InSession } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';
import type { Visit } from '../visit.ts';

/** Limits how fast a session sends what is not a call of a tool. No quota counts that; `admit` counts calls of tools. */
export function keepPace(pace: RequestPace): BeforeStage<InSession<Arrived> | InSession<Visit>, void> {
  return {
    name: 'keepPace',
    refuses: ['QUOTA_EXCEEDED'],
    isNeeded: ({ isToolCall }) => !isToolCall,
    before(exchange) {
      // Requests that look through all sessions of a user are counted once, in `listForUser`.
      if ('looksAs' in exchange && exchange.looksAs !== undefined) return;
      pace.take(exchange.session.id);
    },
  };
}
