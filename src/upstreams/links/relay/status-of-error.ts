import { memberOf, rawAt } from '../../../protocol/json/scan.ts';
import type { Message } from '../../../protocol/message.ts';

/** The HTTP status that MCP 2026-07-28 prescribes for an error that came without one, over stdio. */
export function statusOfError(message: Message): number {
  if (message.error === undefined) return 200;
  const code = memberOf(message.error.shape, 'code');
  switch (code === undefined ? '' : rawAt(message.bytes, code)) {
    case '-32601':
      return 404;
    case '-32020':
    case '-32021':
    case '-32022':
      return 400;
    default:
      return 200;
  }
}
