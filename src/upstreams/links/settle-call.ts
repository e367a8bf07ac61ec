import { AmbitError } from '../../errors.ts';
import type { Reply } from '../../protocol/channel.ts';
import type { Message } from '../../protocol/message.ts';
import type { ServerDefinition } from '../definition.ts';
import type { PendingCall } from './relay/pending.ts';
import { refusalOfQuestionsIn } from './relay/refused-question.ts';

/** Ends a call with the answer of its server, or with a refusal. Whatever is wrong with an answer concerns that call alone. */
export function settleCall(server: ServerDefinition, call: PendingCall, message: Message, prepare: () => Reply): void {
  try {
    const refusal = refusalOfQuestionsIn(server, message);
    if (refusal === undefined) call.settle(prepare());
    else call.fail(refusal);
  } catch (cause) {
    const what = `The answer of the server "${server.name}" cannot be used.`;
    call.fail(new AmbitError('UPSTREAM_FAILED', { what, cause }));
  }
}
