import { type Edit, removeMembers } from './edit.ts';
import { foldKey } from './fold-key.ts';
import type { Message } from './message.ts';
import { type Member, type Shape, shapeAt } from './scan.ts';

/** `_meta` keys under our prefix are ours alone to write: every inbound copy is taken out, whoever sent it. */
export function isOurKey(key: string): boolean {
  return key.length > 5 && key.charCodeAt(5) === 0x2f && key.slice(0, 5).toLowerCase() === 'ambit';
}

/** What most messages consist of, and none of our keys can lie in. */
const plain = new Set(['name', 'arguments', 'uri', 'cursor', 'content', 'structuredContent', 'isError', 'resultType']);

/**
 * Takes our keys out of every `_meta` a reader may find, be it there twice or in another spelling; also out of the
 * questions and answers that MCP 2026-07-28 carries inside results and requests instead of by themselves.
 */
export function stripOurKeys(message: Message): Edit[] {
  const edits: Edit[] = [];
  const { bytes } = message;
  for (const member of (message.params ?? message.result)?.shape?.members ?? []) {
    switch (plain.has(member.key) ? '' : foldKey(member.key)) {
      case '_meta':
        stripMeta(bytes, member, edits);
        break;
      case 'inputresponses':
        for (const answer of membersAt(bytes, member)) stripHolder(bytes, answer, edits);
        break;
      case 'inputrequests':
        for (const question of membersAt(bytes, member)) {
          for (const part of membersAt(bytes, question)) {
            if (foldKey(part.key) === 'params') stripHolder(bytes, part, edits);
          }
        }
    }
  }
  return edits;
}

function stripHolder(bytes: Buffer, holder: Member, edits: Edit[]): void {
  for (const member of membersAt(bytes, holder)) if (foldKey(member.key) === '_meta') stripMeta(bytes, member, edits);
}

function stripMeta(bytes: Buffer, member: Member, edits: Edit[]): void {
  const meta: Shape | undefined = shapeAt(bytes, member);
  if (meta?.members.some(({ key }) => isOurKey(key))) edits.push(...removeMembers(meta, ({ key }) => isOurKey(key)));
}

function membersAt(bytes: Buffer, member: Member): readonly Member[] {
  return shapeAt(bytes, member)?.members ?? [];
}
