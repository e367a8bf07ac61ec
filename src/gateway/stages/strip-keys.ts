import { applyEdits, type Edit } from '../../protocol/json/edit.ts';
import { readMessage } from '../../protocol/message.ts';
import { type ReservedKeys, stripReservedMeta } from '../../protocol/reserved-meta.ts';
import { createTraceEdits, reserveInvalidTrace } from '../../protocol/trace.ts';
import type { Exchange, PreparedExchange } from '../exchange.ts';
import { removeLoginAnswer } from '../refusal.ts';
import type { BeforeStage } from '../stage.ts';

const noEdits: readonly Edit[] = [];

/** Removes our `_meta` keys. A readable trace of the client continues with our span. */
export function stripKeys(
  keys: () => ReservedKeys,
): BeforeStage<Exchange, Pick<PreparedExchange, 'message' | 'outgoing' | 'edits'>> {
  return {
    name: 'stripKeys',
    refuses: [],
    before({ message, trace }) {
      const ours = stripReservedMeta(message, reserveInvalidTrace(message, trace, keys()));
      const answered = removeLoginAnswer(message);
      const stripped = answered.length === 0 ? ours : [...ours, ...answered];
      const edits = trace?.from === 'meta' ? [...stripped, ...createTraceEdits(message, trace)] : stripped;
      // A handshake is stored and repeated, so the stored copy must not contain the keys either.
      if (message.method === 'initialize' && edits.length > 0) {
        const clean = readMessage(applyEdits(message.bytes, edits));
        return { message: clean, outgoing: clean, edits: noEdits };
      }
      return { message, outgoing: message, edits };
    },
  };
}
