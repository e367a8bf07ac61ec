import { withoutOurBaggage } from './baggage.ts';
import { type Edit, removeMembers, replaceValue } from './json/edit.ts';
import { foldKey, isOddKey, readingIn, readsAs } from './json/fold-key.ts';
import { type Member, shapeAt, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';

/** The `_meta` keys that are ours alone to write or to read. */
export interface OurKeys {
  has(key: string): boolean;
}

/** `ambit` itself, and whatever begins with it and a "/" or "."; in any spelling that some reader takes for it. */
export function isOurKey(key: string): boolean {
  // Nearly every key is told apart by its first letter.
  const first = key.charCodeAt(0);
  if ((first | 0x20) !== 0x61 && first > 0x20 && first < 0x7f) return false;
  if (isOddKey(key) && readsAs(key, 'ambit')) return true;
  const folded = foldKey(key);
  if (!folded.startsWith('ambit')) return false;
  return folded.length === 5 || folded[5] === '/' || folded[5] === '.';
}

const onlyOurs: OurKeys = { has: isOurKey };

/** Ours, and the other names under which a client may announce a workspace. */
export function ourKeys(announceKeys: readonly string[]): OurKeys {
  const others = announceKeys.map(foldKey).filter((key) => key !== 'ambit');
  if (others.length === 0) return onlyOurs;
  const announced = new Set(others.flatMap((key) => [key, `${key}.workspace`]));
  return { has: (key) => isOurKey(key) || readingIn(key, announced) !== undefined };
}

/** What most messages consist of, and none of our keys can lie in. */
const plain = new Set(['name', 'arguments', 'uri', 'cursor', 'content', 'structuredContent', 'isError', 'resultType']);
const holders = new Set(['_meta', 'inputresponses', 'inputrequests']);

/**
 * Takes our keys out of every `_meta` a reader may find, be it there twice or in another spelling; also out of the
 * questions and answers that MCP 2026-07-28 carries inside results and requests instead of by themselves.
 */
export function stripOurKeys(message: Message, keys: OurKeys = onlyOurs): Edit[] {
  const edits: Edit[] = [];
  const { bytes } = message;
  for (const member of (message.params ?? message.result)?.shape?.members ?? []) {
    switch (plain.has(member.key) ? '' : readingIn(member.key, holders)) {
      case '_meta':
        stripMeta(bytes, member, keys, edits);
        break;
      case 'inputresponses':
        for (const answer of membersAt(bytes, member)) stripHolder(bytes, answer, keys, edits);
        break;
      case 'inputrequests':
        for (const question of membersAt(bytes, member)) {
          for (const part of membersAt(bytes, question)) {
            if (readsAs(part.key, 'params')) stripHolder(bytes, part, keys, edits);
          }
        }
    }
  }
  return edits;
}

function stripHolder(bytes: Buffer, holder: Member, keys: OurKeys, edits: Edit[]): void {
  for (const member of membersAt(bytes, holder)) {
    if (readsAs(member.key, '_meta')) stripMeta(bytes, member, keys, edits);
  }
}

function stripMeta(bytes: Buffer, member: Member, keys: OurKeys, edits: Edit[]): void {
  const meta = shapeAt(bytes, member);
  if (meta === undefined) return;
  let unwanted: Set<Member> | undefined;
  for (const each of meta.members) {
    if (keys.has(each.key)) unwanted = (unwanted ?? new Set()).add(each);
    else if (isBaggage(each.key)) {
      const text = stringAt(bytes, each);
      const rest = text === undefined ? undefined : withoutOurBaggage(text);
      if (rest === text || rest === undefined) continue;
      if (rest === '') unwanted = (unwanted ?? new Set()).add(each);
      else edits.push(replaceValue(each, JSON.stringify(rest)));
    }
  }
  if (unwanted === undefined) return;
  const all = unwanted;
  edits.push(...removeMembers(meta, (each) => all.has(each)));
}

function isBaggage(key: string): boolean {
  const first = key.charCodeAt(0);
  const isOther = (first | 0x20) !== 0x62 && first > 0x20 && first < 0x7f;
  return !isOther && readsAs(key, 'baggage');
}

function membersAt(bytes: Buffer, member: Member): readonly Member[] {
  return shapeAt(bytes, member)?.members ?? [];
}
