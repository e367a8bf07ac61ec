import type { Message } from '../../wire/message.ts';
import { memberOf, rawAt } from '../../wire/scan.ts';

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
