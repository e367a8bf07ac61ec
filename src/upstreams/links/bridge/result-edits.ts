import { applyEdits, type Edit, removeMembers, replaceValue } from '../../../protocol/json/edit.ts';
import { memberOf, rawAt } from '../../../protocol/json/scan.ts';
import { idMember, type Message } from '../../../protocol/message.ts';

const cacheable = new Set([
  'server/discover',
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** A handshake-era answer as a modern client must see it: complete, and with its cache hints where they are due. */
export function modernised(answer: Message, method: string): Buffer {
  const edits: Edit[] = [];
  const result = answer.result?.shape;
  if (result !== undefined) {
    const additions: string[] = [];
    if (memberOf(result, 'resultType') === undefined) additions.push('"resultType":"complete"');
    if (cacheable.has(method)) {
      if (memberOf(result, 'ttlMs') === undefined) additions.push('"ttlMs":0');
      if (memberOf(result, 'cacheScope') === undefined) additions.push('"cacheScope":"private"');
    }
    const tail = result.members.length > 0 && additions.length > 0 ? ',' : '';
    edits.push({ start: result.start + 1, end: result.start + 1, text: additions.join(',') + tail });
  }
  // −32002 was "resource not found"; the modern era says −32602.
  const code = memberOf(answer.error?.shape, 'code');
  if (code !== undefined && rawAt(answer.bytes, code) === '-32002') edits.push(replaceValue(code, '-32602'));
  return applyEdits(answer.bytes, edits);
}

const modernOnly = new Set(['resultType', 'ttlMs', 'cacheScope']);

/** A modern answer as a handshake-era client knows it. */
export function withoutModernParts(answer: Message): Buffer {
  const result = answer.result?.shape;
  if (result === undefined) return answer.bytes;
  return applyEdits(
    answer.bytes,
    removeMembers(result, (member) => modernOnly.has(member.key)),
  );
}

export function withId(answer: Message, id: string): Buffer {
  return applyEdits(answer.bytes, [replaceValue(idMember(answer), id)]);
}
