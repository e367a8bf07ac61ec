import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { readsAs } from '../../protocol/json/fold-key.ts';
import {
  isEmptyArray,
  type JsonMember,
  readElements,
  readRawValue,
  readStringValue,
} from '../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../protocol/message.ts';

type JsonObject = Readonly<Record<string, unknown>>;

/**
 * Finds the content of a final result, where a block is inserted; undefined when there is none. A modern client ignores
 * content beside a question or a task. Other clients do not know `resultType`.
 */
export function findContent(message: Message, modern: boolean): JsonMember | undefined {
  const type = modern ? findLastMember(message, 'resultType') : undefined;
  const isFinal = type === undefined || readStringValue(message.bytes, type) === 'complete';
  return isFinal ? findList(message, 'content') : undefined;
}

/** Inserts a block, as JSON, before all other content. The rest of the result stays as it is. */
export function insertFirstBlock(message: Message, content: JsonMember, block: string): Buffer {
  return applyEdits(message.bytes, [insertAtStart(message.bytes, content, [block])]);
}

/** Adds messages, as JSON, before and after those of a prompt. */
export function surroundMessages(bytes: Buffer, before: readonly string[], after: readonly string[]): Buffer {
  const messages = findList(readMessage(bytes), 'messages');
  if (messages === undefined) return bytes;
  const own = readElements(bytes, messages);
  if (own.length === 0) return applyEdits(bytes, [replaceValue(messages, `[${[...before, ...after].join(',')}]`)]);
  const edits = before.length === 0 ? [] : [insertAtStart(bytes, messages, before)];
  const end = own.at(-1)?.end ?? messages.end;
  const text = after.map((each) => `,${each}`).join('');
  return applyEdits(bytes, text === '' ? edits : [...edits, { start: end, end, text }]);
}

/** Adds a block of text to the result of a call that failed, if one of its texts matches. */
export function addErrorText(bytes: Buffer, pattern: RegExp, createText: () => string): Buffer {
  const message = readMessage(bytes);
  const list = findList(message, 'content');
  if (message.result === undefined || list === undefined || !isReadableResult(message)) return bytes;
  const { isError, content } = JSON.parse(readRawValue(bytes, message.result)) as JsonObject;
  const blocks = content as readonly JsonObject[];
  if (isError !== true || !blocks.some(({ type, text }) => type === 'text' && pattern.test(text as string)))
    return bytes;
  const at = list.end - 1;
  return applyEdits(bytes, [{ start: at, end: at, text: `,${JSON.stringify({ type: 'text', text: createText() })}` }]);
}

/** Adds text for one user after the instructions of a result, which becomes private to caches. */
export function addInstructions(bytes: Buffer, addition: string): Buffer {
  const message = readMessage(bytes);
  const result = message.result?.shape;
  if (result === undefined) return bytes;
  const edits = result.members
    .filter(({ key }) => key === 'cacheScope')
    .map((member) => replaceValue(member, '"private"'));
  const found = findLastMember(message, 'instructions');
  const own = readStringValue(bytes, found);
  if (found !== undefined) {
    const text = own === undefined || own === '' ? addition : `${own}\n\n${addition}`;
    return applyEdits(bytes, [...edits, replaceValue(found, JSON.stringify(text))]);
  }
  const at = result.start + 1;
  const text = `"instructions":${JSON.stringify(addition)}${result.members.length > 0 ? ',' : ''}`;
  return applyEdits(bytes, [...edits, { start: at, end: at, text }]);
}

/** Finds a member of the result. Most readers take the last of several with one name. */
function findLastMember(message: Message, key: string): JsonMember | undefined {
  return message.result?.shape?.members.filter((member) => member.key === key).at(-1);
}

function findList(message: Message, key: string): JsonMember | undefined {
  const found = findLastMember(message, key);
  return found !== undefined && message.bytes[found.start] === 0x5b ? found : undefined;
}

function insertAtStart(bytes: Buffer, list: JsonMember, items: readonly string[]): Edit {
  const at = list.start + 1;
  return { start: at, end: at, text: `${items.join(',')}${isEmptyArray(bytes, list) ? '' : ','}` };
}

/**
 * Tells whether clients can read the result of a call. A client that validates results drops all of one that breaks MCP
 * in any part, together with the inserted block.
 */
export function isReadableResult({ bytes, result }: Message): boolean {
  const members = result?.shape?.members ?? [];
  // Readers disagree about which of two equal names counts.
  if (result === undefined || members.filter(({ key }) => readsAs(key, 'content')).length !== 1) return false;
  const { content, isError, structuredContent, _meta } = JSON.parse(readRawValue(bytes, result)) as JsonObject;
  return (
    Array.isArray(content) &&
    content.every(isReadableBlock) &&
    (isError === undefined || typeof isError === 'boolean') &&
    isObjectOrAbsent(structuredContent) &&
    isObjectOrAbsent(_meta)
  );
}

function isReadableBlock(block: unknown): boolean {
  if (!isObject(block) || !isObjectOrAbsent(block['_meta']) || !isObjectOrAbsent(block['annotations'])) return false;
  switch (block['type']) {
    case 'text':
      return isText(block['text']);
    case 'image':
    case 'audio':
      return isBase64(block['data']) && isText(block['mimeType']);
    case 'resource_link':
      return isText(block['uri']) && isText(block['name']);
    case 'resource':
      return isReadableResource(block['resource']);
    default:
      return false;
  }
}

function isReadableResource(resource: unknown): boolean {
  if (!isObject(resource) || !isText(resource['uri']) || !isObjectOrAbsent(resource['_meta'])) return false;
  return isText(resource['text']) || isBase64(resource['blob']);
}

function isBase64(value: unknown): boolean {
  return isText(value) && !/[^A-Za-z0-9+/=\s]/.test(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isObjectOrAbsent(value: unknown): boolean {
  return value === undefined || isObject(value);
}
