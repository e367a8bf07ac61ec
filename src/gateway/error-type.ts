import type { Reply } from '../protocol/channel.ts';
import { memberOf, rawAt } from '../protocol/json/scan.ts';
import { readMessage } from '../protocol/message.ts';

/** Errors are short; a long answer is not read once more to find out that it is none. */
const longestError = 65_536;

/** What a reply says went wrong, in the words of OpenTelemetry's conventions; nothing where it is a result. */
export function errorTypeOf(reply: Reply): string | undefined {
  if (reply.kind !== 'message' || reply.bytes.length > longestError) return undefined;
  const { bytes, error, result } = readMessage(reply.bytes);
  if (error !== undefined) {
    const code = memberOf(error.shape, 'code');
    return code === undefined ? '_OTHER' : rawAt(bytes, code).slice(0, 16);
  }
  const isError = memberOf(result?.shape, 'isError');
  return isError !== undefined && rawAt(bytes, isError) === 'true' ? 'tool_error' : undefined;
}
