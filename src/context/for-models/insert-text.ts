import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { elementsAt, isEmptyList, type Member, stringAt } from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';

/**
 * Where a block would go: the content of a result that is final. Undefined where a reply has none. A modern client reads
 * no content beside a question or a task, whatever a server puts there; others know of no such word.
 */
export function contentOf(message: Message, modern: boolean): Member | undefined {
  const type = modern ? lastOf(message, 'resultType') : undefined;
  const isFinal = type === undefined || stringAt(message.bytes, type) === 'complete';
  return isFinal ? listIn(message, 'content') : undefined;
}

/** `block` is JSON; the rest of the result stays as it is. */
export function withFirstBlock(message: Message, content: Member, block: string): Buffer {
  return applyEdits(message.bytes, [first(message.bytes, content, [block])]);
}

/** Messages, as JSON, around those of a prompt. */
export function withMessagesAround(bytes: Buffer, before: readonly string[], after: readonly string[]): Buffer {
  const message = readMessage(bytes);
  const messages = listIn(message, 'messages');
  if (messages === undefined) return bytes;
  const own = elementsAt(bytes, messages);
  if (own.length === 0) return applyEdits(bytes, [replaceValue(messages, `[${[...before, ...after].join(',')}]`)]);
  const edits = before.length === 0 ? [] : [first(bytes, messages, before)];
  const end = own.at(-1)?.end ?? messages.end;
  const text = after.map((each) => `,${each}`).join('');
  return applyEdits(bytes, text === '' ? edits : [...edits, { start: end, end, text }]);
}

/**
 * Further words in the instructions of a handshake or a description, after the server's own. They are one user's: what
 * the server lets anybody keep for everybody is no longer that.
 */
export function withInstructions(bytes: Buffer, words: string): Buffer {
  const message = readMessage(bytes);
  const result = message.result?.shape;
  if (result === undefined) return bytes;
  const edits = result.members
    .filter(({ key }) => key === 'cacheScope')
    .map((member) => replaceValue(member, '"private"'));
  const found = lastOf(message, 'instructions');
  const own = stringAt(bytes, found);
  if (found !== undefined) {
    const text = own === undefined || own === '' ? words : `${own}\n\n${words}`;
    return applyEdits(bytes, [...edits, replaceValue(found, JSON.stringify(text))]);
  }
  const at = result.start + 1;
  const text = `"instructions":${JSON.stringify(words)}${result.members.length > 0 ? ',' : ''}`;
  return applyEdits(bytes, [...edits, { start: at, end: at, text }]);
}

/** Of several of one name it is the last that most readers take. */
function lastOf(message: Message, key: string): Member | undefined {
  return message.result?.shape?.members.filter((member) => member.key === key).at(-1);
}

function listIn(message: Message, key: string): Member | undefined {
  const found = lastOf(message, key);
  return found !== undefined && message.bytes[found.start] === 0x5b ? found : undefined;
}

function first(bytes: Buffer, list: Member, items: readonly string[]): Edit {
  const at = list.start + 1;
  const more = !isEmptyList(bytes, list);
  return { start: at, end: at, text: `${items.join(',')}${more ? ',' : ''}` };
}
