import { applyEdits, type Edit } from '../../wire/edit.ts';
import { type Message, readMessage } from '../../wire/message.ts';
import { type OurKeys, stripOurKeys } from '../../wire/our-keys.ts';
import { type Stage, widen } from '../chain.ts';

const noEdits: readonly Edit[] = [];

/** Seventh on the inward corridor: every inbound copy of our `_meta` keys is taken out before anything is written. */
export function stripKeys<E extends { readonly message: Message }, Out>(
  keys: () => OurKeys,
): Stage<E, E & { readonly edits: readonly Edit[] }, Out> {
  return function stripKeys(exchange, next) {
    const { message } = exchange;
    const edits = stripOurKeys(message, keys());
    // A handshake is remembered and repeated: what may not go on must not be in what is kept either.
    if (message.method === 'initialize' && edits.length > 0) {
      return next(widen(exchange, { message: readMessage(applyEdits(message.bytes, edits)), edits: noEdits }));
    }
    return next(widen(exchange, { edits }));
  };
}
