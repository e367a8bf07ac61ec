import { applyEdits, type Edit } from '../../wire/edit.ts';
import { type Message, readMessage } from '../../wire/message.ts';
import { type OurKeys, stripOurKeys } from '../../wire/our-keys.ts';
import { keysWithTrace, type Trace, traceEdits } from '../../wire/trace.ts';
import { withoutLoginAnswer } from '../ask-to-log-in.ts';
import { type Stage, widen } from '../chain.ts';

const noEdits: readonly Edit[] = [];

/**
 * Seventh on the inward corridor: every inbound copy of our `_meta` keys is taken out before anything is written. The
 * trace that a client is part of goes on with our span in it; one that cannot be read does not.
 */
export function stripKeys<E extends { readonly message: Message; readonly trace: Trace | undefined }, Out>(
  keys: () => OurKeys,
): Stage<E, E & { readonly edits: readonly Edit[] }, Out> {
  return function stripKeys(exchange, next) {
    const { message, trace } = exchange;
    const ours = stripOurKeys(message, keysWithTrace(message, trace, keys()));
    const answered = withoutLoginAnswer(message);
    const stripped = answered.length === 0 ? ours : [...ours, ...answered];
    const edits = trace?.from === 'meta' ? [...stripped, ...traceEdits(message, trace)] : stripped;
    // A handshake is remembered and repeated: what may not go on must not be in what is kept either.
    if (message.method === 'initialize' && edits.length > 0) {
      return next(widen(exchange, { message: readMessage(applyEdits(message.bytes, edits)), edits: noEdits }));
    }
    return next(widen(exchange, { edits }));
  };
}
