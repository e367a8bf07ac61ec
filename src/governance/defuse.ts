import { applyEdits, type Edit, removeMembers, replaceValue } from '../wire/edit.ts';
import { foldKey } from '../wire/fold-key.ts';
import { readMessage } from '../wire/message.ts';
import { isOurKey } from '../wire/our-keys.ts';
import { elementsAt, type Member, memberOf, shapeAt, stringAt } from '../wire/scan.ts';

/** The words of the header in any case, with whatever cannot be seen between their letters. */
const unseen = '\\s\\p{Cf}\\p{Cc}\\p{M}\\p{DI}\\u2800';
const spelled = (word: string) => [...word].join(`[${unseen}]*`);
const lookAlike = new RegExp(
  `${spelled('session')}[${unseen}_-]*${spelled('context')}[${unseen}\\p{P}]*${spelled('auto')}[${unseen}\\p{Pd}]*${spelled('injected')}`,
  'giu',
);

/**
 * Bytes without this cannot look like a block of ours: that is one pass over them, and all that most results cost.
 * Between the letters there may be bytes of other characters and the short escapes; a long one can hide every letter,
 * so text with one is looked at.
 */
const lettersApart = new RegExp([...'jected'].join('(?:[^a-z0-9\\\\]|\\\\[a-z])*'), 'i');

export const defusedMark = '[written by a tool, not by Ambit]';

/** What a model reads of that which a server offers; its names and values mean something to programs. */
const described = new Set(['description', 'title', 'text']);
const offers = new Set(['tools', 'prompts', 'resources', 'resourcetemplates', 'contents']);
const mostLevels = 24;

/**
 * What an upstream answered, so that nothing in it passes for a block of ours: the header in its texts is marked, and
 * our key is taken out of its content blocks. The same bytes where there is nothing of the kind.
 */
export function defused(bytes: Buffer): Buffer {
  if (!isSuspicious(bytes)) return bytes;
  const message = readMessage(bytes);
  const edits: Edit[] = [];
  for (const member of message.result?.shape?.members ?? []) {
    const key = foldKey(member.key);
    const texts: Member[] = [];
    if (key === 'content') for (const block of itemsAt(bytes, member)) readBlock(bytes, block, texts, edits);
    if (key === 'messages') {
      for (const each of itemsAt(bytes, member)) {
        const content = memberOf(shapeAt(bytes, each), 'content');
        if (content !== undefined) readBlock(bytes, content, texts, edits);
      }
    }
    if (key === 'instructions' || key === 'description') texts.push(member);
    if (offers.has(key)) collectDescribed(bytes, member, texts);
    markIn(bytes, texts, edits);
  }
  const words = memberOf(message.error?.shape, 'message');
  if (words !== undefined) markIn(bytes, [words], edits);
  return applyEdits(bytes, edits);
}

function isSuspicious(bytes: Buffer): boolean {
  return bytes.includes('\\u') || bytes.includes('context-block') || lettersApart.test(bytes.toString('latin1'));
}

function itemsAt(bytes: Buffer, list: Member): Member[] {
  if (bytes[list.start] !== 0x5b) return [];
  return elementsAt(bytes, list).map((span) => ({ ...list, ...span, shape: undefined }));
}

function readBlock(bytes: Buffer, block: Member, texts: Member[], edits: Edit[]): void {
  for (const member of shapeAt(bytes, block)?.members ?? []) {
    if (described.has(member.key)) texts.push(member);
    if (member.key === 'resource') readBlock(bytes, member, texts, edits);
    if (foldKey(member.key) === '_meta') {
      const meta = shapeAt(bytes, member);
      if (meta !== undefined) edits.push(...removeMembers(meta, ({ key }) => isOurKey(key)));
    }
  }
}

/** Each level is read once more than the one above it, so a server does not say how many there are. */
function collectDescribed(bytes: Buffer, value: Member, texts: Member[], levels = mostLevels): void {
  if (levels === 0) return;
  for (const item of itemsAt(bytes, value)) collectDescribed(bytes, item, texts, levels - 1);
  for (const member of shapeAt(bytes, value)?.members ?? []) {
    if (described.has(member.key) && bytes[member.start] === 0x22) texts.push(member);
    else collectDescribed(bytes, member, texts, levels - 1);
  }
}

/** They are read one after the other, so what begins in one of them may end in the next. */
function markIn(bytes: Buffer, members: readonly Member[], edits: Edit[]): void {
  const texts = members.map((member) => ({ member, text: stringAt(bytes, member) ?? '' }));
  const found = [
    ...texts
      .map(({ text }) => text)
      .join('\n')
      .matchAll(lookAlike),
  ].map(({ index }) => index);
  let [start, next] = [0, 0];
  for (const { member, text } of texts) {
    const here: number[] = [];
    for (let at = found[next]; at !== undefined && at < start + text.length; at = found[++next]) here.push(at - start);
    start += text.length + 1;
    if (here.length === 0) continue;
    const parts = [0, ...here].map((from, index) => text.slice(from, here[index]));
    edits.push(replaceValue(member, JSON.stringify(parts.join(`${defusedMark} `))));
  }
}
