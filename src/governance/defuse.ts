import { AmbitError } from '../errors.ts';
import { refusedRequest } from '../wire/compose.ts';
import { applyEdits, type Edit, removeMembers, replaceValue } from '../wire/edit.ts';
import { foldKey } from '../wire/fold-key.ts';
import { type Message, readMessage } from '../wire/message.ts';
import { isOurKey } from '../wire/our-keys.ts';
import { elementsAt, type Member, shapeAt } from '../wire/scan.ts';
import { stringAt, walkStrings } from '../wire/walk-strings.ts';
import { findLookAlikes, mayHoldLookAlike } from './look-alike.ts';

export const defusedMark = '[written by a tool, not by Ambit]';

/** A message with more look-alikes than this has nothing else to say, and marking them all would take long. */
const mostLookAlikes = 1000;
/** A message, its content, a result of a tool in it, its content, a resource in that: further down no reader looks. */
const deepestContent = 16;

/** Members of a result, or of the parameters of a push, that programs read and models do not. All names are folded. */
const programMembers = new Set(['_meta', 'nextcursor', 'requeststate', 'taskid']);
/** What a server offers is called by its name and its address, so these stay as they are. */
const offers = new Set(['tools', 'prompts', 'resources', 'resourcetemplates', 'contents']);
const offerMembers = new Set(['_meta', 'name', 'uri', 'uritemplate', 'mimetype', 'blob']);
const blockMembers = new Set(['_meta', 'type', 'role', 'uri', 'mimetype', 'blob', 'data']);

/**
 * Marks everything in a message of an upstream that reads like the header of a block of ours, and takes our key out of
 * its content blocks. Returns the same bytes where there is nothing of the kind.
 */
export function defused(bytes: Buffer): Buffer {
  return isSuspicious(bytes) ? withMarks(readMessage(bytes)) : bytes;
}

function withMarks(message: Message): Buffer {
  const { bytes } = message;
  const edits: Edit[] = [];
  for (const holder of [message.params, message.result, message.error]) {
    if (holder === undefined) continue;
    if (!markTexts(textsIn(bytes, holder), edits)) return withoutContent(message, holder);
    for (const member of holder.shape?.members ?? []) {
      const key = foldKey(member.key);
      if (key === '_meta') continue;
      if (key === 'content' || key === 'messages') stripOurKey(bytes, member, edits);
    }
  }
  return applyEdits(bytes, edits);
}

function isSuspicious(bytes: Buffer): boolean {
  const text = bytes.toString('utf8');
  const plain = text.includes('\\u') ? text.replace(/\\u([0-9a-f]{4})/gi, (_, hex) => characterOf(hex)) : text;
  return /context-block/i.test(plain) || mayHoldLookAlike(plain, true);
}

function characterOf(hex: string): string {
  return String.fromCharCode(Number.parseInt(hex, 16));
}

function withoutContent(message: Message, { start, end }: Member): Buffer {
  if (message.kind !== 'response') return applyEdits(message.bytes, [replaceValue({ start, end }, '{}')]);
  const what = `The server imitates the context block of Ambit more than ${mostLookAlikes} times in one answer.`;
  return refusedRequest(
    message.id ?? 'null',
    new AmbitError('UPSTREAM_TOO_LARGE', { what, hint: 'Do not use this answer.' }),
  );
}

/** Finds the texts in a value that a model may read, names of members included, in their order. */
function textsIn(bytes: Buffer, { start, end }: Member): Text[] {
  const found: Text[] = [];
  walkStrings(bytes, start, end, (from, to, keys, isKey) => {
    if (isForPrograms(keys)) return;
    found.push({ span: { start: from, end: to }, text: stringAt(bytes, from, to), isKey });
  });
  return found;
}

function isForPrograms(path: readonly string[]): boolean {
  const first = foldKey(path[0] ?? '');
  if (programMembers.has(first)) return true;
  if (offers.has(first)) return offerMembers.has(foldKey(path[1] ?? ''));
  if (first !== 'content' && first !== 'messages') return false;
  let depth = 1;
  while (path[depth] === 'content' || path[depth] === 'resource') depth++;
  return blockMembers.has(foldKey(path[depth] ?? ''));
}

function itemsAt(bytes: Buffer, list: Member): Member[] {
  if (bytes[list.start] !== 0x5b) return [];
  return elementsAt(bytes, list).map((span) => ({ ...list, ...span, shape: undefined }));
}

/** Of a block, or a list of them; a message of a prompt holds either, and a result of a tool in it holds a list again. */
function stripOurKey(bytes: Buffer, holder: Member, edits: Edit[], depth = 0): void {
  if (depth > deepestContent) return;
  for (const item of itemsAt(bytes, holder)) stripOurKey(bytes, item, edits, depth + 1);
  for (const member of shapeAt(bytes, holder)?.members ?? []) {
    const name = foldKey(member.key);
    if (name === 'resource' || name === 'content') stripOurKey(bytes, member, edits, depth + 1);
    if (name === '_meta') {
      const meta = shapeAt(bytes, member);
      if (meta !== undefined) edits.push(...removeMembers(meta, ({ key }) => isOurKey(key)));
    }
  }
}

interface Text {
  readonly span: { readonly start: number; readonly end: number };
  readonly text: string;
  readonly isKey: boolean;
}

/**
 * Marks the texts. A reader sees them one after the other, with the names of members or without. False when there is too
 * much to be marked.
 */
function markTexts(texts: readonly Text[], edits: Edit[]): boolean {
  const values = texts.filter(({ isKey }) => !isKey);
  const places = new Map<Text, Set<number>>();
  for (const row of values.length === texts.length ? [values] : [values, texts]) {
    const found = findInRow(row);
    if (found.length > mostLookAlikes) return false;
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
function findInRow(row: readonly Text[]): [Text, number][] {
  const whole = row.map(({ text }) => text).join('\n');
  if (!mayHoldLookAlike(whole, false)) return [];
  const found = findLookAlikes(whole, mostLookAlikes + 1);
  const places: [Text, number][] = [];
  let [start, next] = [0, 0];
  for (const text of row) {
    for (let at = found[next]; at !== undefined && at < start + text.text.length; at = found[++next]) {
      places.push([text, at - start]);
    }
    start += text.text.length + 1;
  }
  return places;
}
