import type { Reply } from '../../wire/channel.ts';
import { assertParamSizes } from '../../wire/param-sizes.ts';
import { assertParamTypes } from '../../wire/param-types.ts';
import type { Stage } from '../chain.ts';
import type { Arrived, Identified } from '../exchange.ts';

/**
 * Refuses a request whose tool, prompt or resource cannot be read in exactly one way, before anything is decided on it,
 * and one that says more of its client than is kept.
 */
export function checkParams(): Stage<Identified<Arrived>, Identified<Arrived>, Reply> {
  return function checkParams(exchange, next) {
    assertParamSizes(exchange.message);
    assertParamTypes(exchange.message, exchange.era === 'handshake');
    return next(exchange);
  };
}
