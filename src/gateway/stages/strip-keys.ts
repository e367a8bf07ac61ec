import type { Reply } from '../../wire/channel.ts';
import { stripOurKeys } from '../../wire/our-keys.ts';
import { type Stage, widen } from '../chain.ts';
import type { Arrived, Bound, Prepared } from '../exchange.ts';

/** Sixth on the inward corridor: every inbound copy of our `_meta` keys is taken out before anything is written. */
export function stripKeys(): Stage<Bound<Arrived>, Prepared, Reply> {
  return function stripKeys(exchange, next) {
    return next(widen(exchange, { edits: stripOurKeys(exchange.message) }));
  };
}
