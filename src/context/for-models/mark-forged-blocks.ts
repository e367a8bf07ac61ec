import { isAscii } from 'node:buffer';
import { AmbitError } from '../../errors.ts';
import { composeRequestRefusal } from '../../protocol/compose-message.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { decodeStringToken, walkStrings } from '../../protocol/json/json-strings.ts';
import type { JsonMember } from '../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../protocol/message.ts';
import { stripNestedMeta } from '../../protocol/reserved-meta.ts';
import { findLookAlikes, mayContainLookAlike } from './find-look-alikes.ts';

export const forgedBlockMark = '[written by a tool, not by Ambit]';

/** Limit of look-alikes in a message. One with more has no other purpose, and marking them would take long. */
const maxLookAlikes = 1000;

/** Members of a result, or of the parameters of a push, that programs read and models do not; compared exactly. */
const programMembers = new Set(['_meta', 'nextCursor', 'requestState', 'taskId']);
/** Lists of what a server offers. Their names and addresses identify the entries, so they stay unchanged. */
const offers = new Set(['tools', 'prompts', 'resources', 'resourceTemplates', 'contents']);
const offerMembers = new Set(['_meta', 'name', 'uri', 'uriTemplate', 'mimeType', 'blob']);
const blockMembers = new Set(['_meta', 'type', 'role', 'uri', 'mimeType', 'blob', 'data']);

/**
 * Marks everything in a message of an upstream that reads like the header of a context block, and removes reserved keys
 * from every `_meta` but the first, which the links have checked. Returns the same bytes where there is nothing to do.
 */
export function markForgedBlocks(bytes: Buffer): Buffer {
  const text = dropControlEscapes(bytes.toString('utf8'));
  const plain = text.includes('\\u')
    ? text.replace(/\\u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    : text;
  const stripped = mayContainOurKey(bytes, text) ? stripOurKeys(bytes) : bytes;
  return mayContainLookAlike(plain, true) ? addMarks(readMessage(stripped)) : stripped;
}

/**
 * Removes escapes of control characters, of which coloured and binary output has millions. They are no letters of a header
 * or a key. A backslash that is itself escaped stays.
 */
function dropControlEscapes(text: string): string {
  return text.includes('\\u00') ? text.replace(/(\\\\)|\\u00[01][0-9a-f]/gi, '$1') : text;
}

/** Tells whether a `_meta` may contain a reserved key, also one spelled with look-alike or ignored characters. */
function mayContainOurKey(bytes: Buffer, text: string): boolean {
  return !isAscii(bytes) || text.includes('\\u') || (/_[Mm][Ee][Tt][Aa]/.test(text) && /ambit/i.test(text));
}

function stripOurKeys(bytes: Buffer): Buffer {
  const message = readMessage(bytes);
  const { params, result, error } = message;
  const edits = [params, result].flatMap((holder) => (holder === undefined ? [] : stripNestedMeta(bytes, holder)));
  if (error !== undefined) edits.push(...stripNestedMeta(bytes, error, true));
  return applyMessageEdits(message, edits).bytes;
}

function addMarks(message: Message): Buffer {
  const { bytes } = message;
  const edits: Edit[] = [];
  for (const holder of [message.params, message.result, message.error]) {
    if (holder === undefined) continue;
    if (!markTexts(readTexts(bytes, holder), edits)) return dropContent(message, holder);
  }
  return applyEdits(bytes, edits);
}

function dropContent(message: Message, { start, end }: JsonMember): Buffer {
  if (message.kind !== 'response') return applyEdits(message.bytes, [replaceValue({ start, end }, '{}')]);
  const what = `The answer of the server imitates the context block of Ambit more than ${maxLookAlikes} times.`;
  return composeRequestRefusal(
    message.id ?? 'null',
    new AmbitError('UPSTREAM_TOO_LARGE', { what, hint: 'Do not use this answer.' }),
  );
}

/** Finds the texts of a value that a model may read, in their order, with the names of members. */
function readTexts(bytes: Buffer, { start, end }: JsonMember): MessageText[] {
  const found: MessageText[] = [];
  walkStrings(bytes, start, end, (from, to, keys, isKey) => {
    if (isForPrograms(keys)) return;
    found.push({ span: { start: from, end: to }, text: decodeStringToken(bytes, from, to), isKey });
  });
  return found;
}

function isForPrograms(path: readonly string[]): boolean {
  const [first = '', second = ''] = path;
  if (programMembers.has(first)) return true;
  if (offers.has(first)) return offerMembers.has(second);
  if (first !== 'content' && first !== 'messages') return false;
  let depth = 1;
  while (path[depth] === 'content' || path[depth] === 'resource') depth++;
  return blockMembers.has(path[depth] ?? '');
}

interface MessageText {
  readonly span: { readonly start: number; readonly end: number };
  readonly text: string;
  readonly isKey: boolean;
}

/** Marks look-alikes in adjacent texts, with the names of members and without. False when there are too many. */
function markTexts(texts: readonly MessageText[], edits: Edit[]): boolean {
  const values = texts.filter(({ isKey }) => !isKey);
  const offsetsByText = new Map<MessageText, Set<number>>();
  for (const row of values.length === texts.length ? [values] : [values, texts]) {
    const found = findLookAlikesInRow(row);
    if (found.length > maxLookAlikes) return false;
    for (const [text, at] of found) offsetsByText.set(text, (offsetsByText.get(text) ?? new Set()).add(at));
  }
  for (const [{ span, text }, found] of offsetsByText) {
    const here = [...found].sort((one, other) => one - other);
    const parts = [0, ...here].map((from, index) => text.slice(from, here[index]));
    edits.push(replaceValue(span, JSON.stringify(parts.join(`${forgedBlockMark} `))));
  }
  return true;
}

/** Finds where look-alikes begin in adjacent texts. One may begin in a text and end in the next. */
function findLookAlikesInRow(row: readonly MessageText[]): [MessageText, number][] {
  const whole = row.map(({ text }) => text).join('\n');
  if (!mayContainLookAlike(whole, false)) return [];
  const found = findLookAlikes(whole, maxLookAlikes + 1);
  const offsetsByText: [MessageText, number][] = [];
  let [start, next] = [0, 0];
  for (const text of row) {
    for (let at = found[next]; at !== undefined && at < start + text.text.length; at = found[++next]) {
      offsetsByText.push([text, at - start]);
    }
    start += text.text.length + 1;
  }
  return offsetsByText;
}
