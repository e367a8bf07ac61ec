import { AmbitError } from '../../errors.ts';
import { StaleSession } from '../../sessions/grants.ts';
import type { Next } from '../stage.ts';

const mostTries = 5;

/**
 * When the session was changed elsewhere just before, or made room for others meanwhile, everything is decided once
 * more, on what it is now.
 */
export async function onLatestRecord<Here, Out>(exchange: Here, next: Next<Here, Out>): Promise<Out> {
  for (let tries = 1; ; tries++) {
    try {
      return await next(exchange);
    } catch (error) {
      if (!(error instanceof StaleSession)) throw error;
      if (tries === mostTries) throw new AmbitError('SESSION_STALE');
    }
  }
}
