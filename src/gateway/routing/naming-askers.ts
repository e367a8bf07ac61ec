import type { Reply } from '../../protocol/channel.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { memberOf, rawAt, shapeAt, stringAt } from '../../protocol/json/scan.ts';
import { readMessage } from '../../protocol/message.ts';
import { nameAsker } from '../../upstreams/links/relay/questions.ts';

const [mark, escaped] = [Buffer.from('inputRequests'), Buffer.from('\\u')];

/** In an answer that asks for input, each question to a person says which server asks. */
export function namingAskers(reply: Reply, server: string): Reply {
  if (reply.kind !== 'message' || !(reply.bytes.includes(mark) || reply.bytes.includes(escaped))) return reply;
  const { bytes, result } = readMessage(reply.bytes);
  const requests = memberOf(result?.shape, 'inputRequests');
  if (requests === undefined) return reply;
  const edits: Edit[] = [];
  for (const member of shapeAt(bytes, requests)?.members ?? []) {
    const request = shapeAt(bytes, member);
    const params = memberOf(request, 'params');
    const method = stringAt(bytes, memberOf(request, 'method')) ?? '';
    if (params !== undefined) edits.push(replaceValue(params, nameAsker(server, method, rawAt(bytes, params))));
  }
  return { ...reply, bytes: applyEdits(bytes, edits) };
}
