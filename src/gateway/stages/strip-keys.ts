import { applyEdits, type Edit } from '../../protocol/json/edit.ts';
import { readMessage } from '../../protocol/message.ts';
import { type OurKeys, stripOurKeys } from '../../protocol/our-keys.ts';
import { keysWithTrace, traceEdits } from '../../protocol/trace.ts';
import type { Arrived, Prepared } from '../exchange.ts';
import { removeLoginAnswer } from '../refusal.ts';
import type { BeforeStage } from '../stage.ts';

const noEdits: readonly Edit[] = [];

/**
 * Takes every copy of our `_meta` keys out of the message. The trace that a client is part of goes on with our span in
 * it; one that cannot be read does not.
 */
export function stripKeys(keys: () => OurKeys): BeforeStage<Arrived, Pick<Prepared, 'message' | 'outgoing' | 'edits'>> {
  return {
    name: 'stripKeys',
    refuses: [],
    before({ message, trace }) {
      const ours = stripOurKeys(message, keysWithTrace(message, trace, keys()));
      const answered = removeLoginAnswer(message);
      const stripped = answered.length === 0 ? ours : [...ours, ...answered];
      const edits = trace?.from === 'meta' ? [...stripped, ...traceEdits(message, trace)] : stripped;
      // A handshake is remembered and repeated, so the keys must not be in the copy that is kept either.
      if (message.method === 'initialize' && edits.length > 0) {
        const clean = readMessage(applyEdits(message.bytes, edits));
        return { message: clean, outgoing: clean, edits: noEdits };
      }
      return { message, outgoing: message, edits };
    },
  };
}
