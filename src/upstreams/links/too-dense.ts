import { AmbitError } from '../../errors.ts';
import type { MessageFault } from '../../protocol/message.ts';

/** The refusal of a message that would hold up everybody else while it is read. */
export function tooDense(server: string, fault: MessageFault): AmbitError {
  return new AmbitError('UPSTREAM_TOO_LARGE', {
    what: `The server "${server}" answered with a message of too many parts: ${fault.message}.`,
    hint: 'Ask for less of it at a time. As one text it may be as long as limits.messageBytes allows.',
  });
}
