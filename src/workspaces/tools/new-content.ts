import { createHash } from 'node:crypto';
import { setImmediate as others } from 'node:timers/promises';
import { applyEdit, replaceWhole, type TextEdit } from '../../lib/text/apply-edit.ts';
import { decodeFile, type Encoding, encode, encodingOf, withMark } from '../../lib/text/encoding.ts';
import type { Strategy } from '../../lib/text/find-text.ts';
import { editRefusal, notText } from './edit-refusals.ts';

export type Change = { readonly content: string } | { readonly edits: readonly TextEdit[] };

/** What a file holds; its text where it is one. */
export interface Current {
  readonly bytes: Uint8Array;
  readonly decoded: { readonly text: string; readonly encoding: Encoding } | undefined;
}

export interface EditMade {
  readonly strategy: Strategy;
  readonly replacements: number;
  /** Where the first is, in the file as the edits before left it. */
  readonly line: number;
}

export interface NewContent {
  readonly text: string;
  readonly bytes: Uint8Array;
  readonly encoding: Encoding;
  readonly edits: readonly EditMade[];
}

const plain = encodingOf(new Uint8Array()) as Encoding;
/** Above this, each edit lets others have their turn. */
const large = 256 * 1024;

export function currentOf(bytes: Uint8Array): Current {
  return { bytes, decoded: decodeFile(bytes) };
}

export function sha256(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex');
}

/** All of the change or nothing. What the file has of encoding, mark and line endings stays. */
export async function newContent(
  path: string,
  current: Current | undefined,
  change: Change,
  fileBytes: number,
): Promise<NewContent> {
  const encoding = current?.decoded?.encoding ?? plain;
  if ('content' in change) {
    const given = withMark(change.content, encoding);
    const text = replaceWhole(current?.decoded?.text ?? '', given.text);
    return { text, bytes: encode(text, given.encoding), encoding: given.encoding, edits: [] };
  }
  if (current !== undefined && current.decoded === undefined) throw notText(path);
  let text = current?.decoded?.text ?? '';
  const edits: EditMade[] = [];
  for (const [i, edit] of change.edits.entries()) {
    if (text.length > large) await others();
    const outcome = applyEdit(text, edit, fileBytes);
    if (outcome.kind !== 'applied') throw editRefusal(outcome, `edits[${i}]`, path, text, edit);
    edits.push({ strategy: outcome.strategy, replacements: outcome.lines.length, line: outcome.lines[0] ?? 1 });
    text = outcome.text;
  }
  return { text, bytes: encode(text, encoding), encoding, edits };
}
