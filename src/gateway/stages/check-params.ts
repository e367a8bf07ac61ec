import type { Reply } from '../../wire/channel.ts';
import { assertParamTypes } from '../../wire/param-types.ts';
import type { Stage } from '../chain.ts';
import type { Arrived, Identified } from '../exchange.ts';

/** Refuses a request whose tool, prompt or resource cannot be read in exactly one way, before anything is decided on it. */
export function checkParams(): Stage<Identified<Arrived>, Identified<Arrived>, Reply> {
  return function checkParams(exchange, next) {
    assertParamTypes(exchange.message, exchange.era === 'handshake');
    return next(exchange);
  };
}
