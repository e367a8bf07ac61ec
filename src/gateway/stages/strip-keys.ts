import type { Edit } from '../../wire/edit.ts';
import type { Message } from '../../wire/message.ts';
import { stripOurKeys } from '../../wire/our-keys.ts';
import { type Stage, widen } from '../chain.ts';

/** Sixth on the inward corridor: every inbound copy of our `_meta` keys is taken out before anything is written. */
export function stripKeys<E extends { readonly message: Message }, Out>(): Stage<
  E,
  E & { readonly edits: readonly Edit[] },
  Out
> {
  return function stripKeys(exchange, next) {
    return next(widen(exchange, { edits: stripOurKeys(exchange.message) }));
  };
}
