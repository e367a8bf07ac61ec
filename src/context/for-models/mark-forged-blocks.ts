import { isAscii } from 'node:buffer';
import { AmbitError } from '../../errors.ts';
import { refusedRequest } from '../../protocol/compose.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import type { Member } from '../../protocol/json/scan.ts';
import { stringAt, walkStrings } from '../../protocol/json/walk-strings.ts';
import { edited, type Message, readMessage } from '../../protocol/message.ts';
import { stripInnerMetas } from '../../protocol/strip-metas.ts';
import { findLookAlikes, mayContainLookAlike } from './find-look-alikes.ts';

export const defusedMark = '[written by a tool, not by Ambit]';

/** A message with more look-alikes than this has nothing else to say, and marking them all would take long. */
const maxLookAlikes = 1000;

/** Members of a result, or of the parameters of a push, that programs read and models do not, spelled exactly so. */
const programMembers = new Set(['_meta', 'nextCursor', 'requestState', 'taskId']);
/** What a server offers is called by its name and its address, so these stay as they are. */
const offers = new Set(['tools', 'prompts', 'resources', 'resourceTemplates', 'contents']);
const offerMembers = new Set(['_meta', 'name', 'uri', 'uriTemplate', 'mimeType', 'blob']);
const blockMembers = new Set(['_meta', 'type', 'role', 'uri', 'mimeType', 'blob', 'data']);

/**
 * Marks everything in a message of an upstream that reads like the header of a block of ours, and takes our keys out of
 * every `_meta` in it but the first, which links have looked through. Returns the same bytes where there is nothing of
 * the kind.
 */
export function defused(bytes: Buffer): Buffer {
  const text = bytes.toString('utf8');
  const plain = text.includes('\\u') ? text.replace(/\\u([0-9a-f]{4})/gi, (_, hex) => parseCharacter(hex)) : text;
  const stripped = mayContainOurKey(bytes, text) ? stripOurKeys(bytes) : bytes;
  return mayContainLookAlike(plain, true) ? addMarks(readMessage(stripped)) : stripped;
}

/** Whether our name is in a `_meta` of it, or characters that some reader takes for letters of these or passes over. */
function mayContainOurKey(bytes: Buffer, text: string): boolean {
  return !isAscii(bytes) || text.includes('\\u') || (/_[Mm][Ee][Tt][Aa]/.test(text) && /ambit/i.test(text));
}

function stripOurKeys(bytes: Buffer): Buffer {
  const message = readMessage(bytes);
  const { params, result, error } = message;
  const edits = [params, result].flatMap((holder) => (holder === undefined ? [] : stripInnerMetas(bytes, holder)));
  if (error !== undefined) edits.push(...stripInnerMetas(bytes, error, true));
  return edited(message, edits).bytes;
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

function parseCharacter(hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16));
}

function dropContent(message: Message, { start, end }: Member): Buffer {
  if (message.kind !== 'response') return applyEdits(message.bytes, [replaceValue({ start, end }, '{}')]);
  const what = `The server imitates the context block of Ambit more than ${maxLookAlikes} times in one answer.`;
  return refusedRequest(
    message.id ?? 'null',
    new AmbitError('UPSTREAM_TOO_LARGE', { what, hint: 'Do not use this answer.' }),
  );
}

/** Finds the texts in a value that a model may read, names of members included, in their order. */
function readTexts(bytes: Buffer, { start, end }: Member): MessageText[] {
  const found: MessageText[] = [];
  walkStrings(bytes, start, end, (from, to, keys, isKey) => {
    if (isForPrograms(keys)) return;
    found.push({ span: { start: from, end: to }, text: stringAt(bytes, from, to), isKey });
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

/**
 * Marks the texts. A reader sees them one after the other, with the names of members or without. False when there is too
 * much to be marked.
 */
function markTexts(texts: readonly MessageText[], edits: Edit[]): boolean {
  const values = texts.filter(({ isKey }) => !isKey);
  const places = new Map<MessageText, Set<number>>();
  for (const row of values.length === texts.length ? [values] : [values, texts]) {
    const found = findLookAlikesInRow(row);
    if (found.length > maxLookAlikes) return false;
    for (const [text, at] of found) places.set(text, (places.get(text) ?? new Set()).add(at));
  }
  for (const [{ span, text }, found] of places) {
    const here = [...found].sort((one, other) => one - other);
    const parts = [0, ...here].map((from, index) => text.slice(from, here[index]));
    edits.push(replaceValue(span, JSON.stringify(parts.join(`${defusedMark} `))));
  }
  return true;
}

/** Finds where a look-alike begins in texts that are read one after the other: it may begin in one and end in the next. */
function findLookAlikesInRow(row: readonly MessageText[]): [MessageText, number][] {
  const whole = row.map(({ text }) => text).join('\n');
  if (!mayContainLookAlike(whole, false)) return [];
  const found = findLookAlikes(whole, maxLookAlikes + 1);
  const places: [MessageText, number][] = [];
  let [start, next] = [0, 0];
  for (const text of row) {
    for (let at = found[next]; at !== undefined && at < start + text.text.length; at = found[++next]) {
      places.push([text, at - start]);
    }
    start += text.text.length + 1;
  }
  return places;
}
