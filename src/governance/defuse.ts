import { applyEdits, type Edit, removeMembers, replaceValue } from '../wire/edit.ts';
import { foldKey } from '../wire/fold-key.ts';
import { readMessage } from '../wire/message.ts';
import { isOurKey } from '../wire/our-keys.ts';
import { elementsAt, type Member, memberOf, shapeAt, stringAt } from '../wire/scan.ts';

/**
 * Text without any of these cannot look like a block of ours: that is one pass each over the bytes, and all that most
 * results cost. An escape can hide every letter, so text with one is looked at.
 */
const suspicious = ['CONTEXT', 'njected', 'INJECTED', 'context-block', '\\u00'].map((word) => Buffer.from(word));

/** The words of the header in any case, with whatever cannot be seen between them. */
const unseen = '[\\s\\p{Cf}]*';
const spelled = (word: string) => [...word].join(unseen);
const lookAlike = new RegExp(
  `${spelled('session')}[\\s\\p{Cf}_-]*${spelled('context')}[\\s\\p{P}\\p{Cf}]*${spelled('auto')}[\\s\\p{Pd}\\p{Cf}]*${spelled('injected')}`,
  'giu',
);

export const defusedMark = '[written by a tool, not by Ambit]';

/**
 * What an upstream answered, so that nothing in it passes for a block of ours: the header in its texts is marked, and
 * our key is taken out of its content blocks. The same bytes where there is nothing of the kind.
 */
export function defused(bytes: Buffer): Buffer {
  if (!suspicious.some((word) => bytes.includes(word))) return bytes;
  const message = readMessage(bytes);
  const edits: Edit[] = [];
  for (const member of message.result?.shape?.members ?? []) {
    const key = foldKey(member.key);
    if (key === 'content') for (const block of blocksAt(bytes, member)) defuseBlock(bytes, block, edits);
    if (key === 'messages') {
      for (const each of blocksAt(bytes, member)) {
        const content = memberOf(shapeAt(bytes, each), 'content');
        if (content !== undefined) defuseBlock(bytes, content, edits);
      }
    }
  }
  const words = memberOf(message.error?.shape, 'message');
  if (words !== undefined) defuseText(bytes, words, edits);
  return applyEdits(bytes, edits);
}

function blocksAt(bytes: Buffer, list: Member): Member[] {
  return elementsAt(bytes, list).map((span) => ({ ...list, ...span, shape: undefined }));
}

function defuseBlock(bytes: Buffer, block: Member, edits: Edit[]): void {
  for (const member of shapeAt(bytes, block)?.members ?? []) {
    if (member.key === 'text') defuseText(bytes, member, edits);
    if (member.key === 'resource') defuseBlock(bytes, member, edits);
    if (foldKey(member.key) === '_meta') {
      const meta = shapeAt(bytes, member);
      if (meta !== undefined) edits.push(...removeMembers(meta, ({ key }) => isOurKey(key)));
    }
  }
}

function defuseText(bytes: Buffer, member: Member, edits: Edit[]): void {
  const text = stringAt(bytes, member);
  const marked = text?.replaceAll(lookAlike, `${defusedMark} $&`);
  if (marked !== undefined && marked !== text) edits.push(replaceValue(member, JSON.stringify(marked)));
}
