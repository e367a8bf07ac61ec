import type { JsonMember, ObjectShape } from './scan.ts';

/** Replaces the bytes [start, end) by `text`. */
export interface Edit {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** Applies edits, in any order but without overlap, to a copy of `bytes` and appends `tail`, plain ASCII. */
export function applyEdits(bytes: Buffer, edits: readonly Edit[], tail = ''): Buffer {
  if (edits.length === 0 && tail === '') return bytes;
  const sorted = isSorted(edits) ? edits : [...edits].sort((a, b) => a.start - b.start || a.end - b.end);
  let size = bytes.length + tail.length;
  for (const edit of sorted) size += Buffer.byteLength(edit.text) - (edit.end - edit.start);
  const out = Buffer.allocUnsafe(size);
  let from = 0;
  let to = 0;
  for (const edit of sorted) {
    if (edit.start < from) throw new RangeError('edits overlap');
    to = copyBytes(bytes, from, edit.start, out, to);
    to += out.write(edit.text, to);
    from = edit.end;
  }
  to = copyBytes(bytes, from, bytes.length, out, to);
  if (tail !== '') out.write(tail, to);
  return out;
}

/** Copies a few bytes in a loop, which is faster than a call for them. */
function copyBytes(bytes: Buffer, from: number, end: number, out: Buffer, to: number): number {
  if (end - from > 48) return to + bytes.copy(out, to, from, end);
  for (let i = from; i < end; i++) out[to + i - from] = bytes[i] as number;
  return to + end - from;
}

function isSorted(edits: readonly Edit[]): boolean {
  for (let i = 1; i < edits.length; i++) {
    const before = edits[i - 1] as Edit;
    const edit = edits[i] as Edit;
    if (before.start > edit.start || (before.start === edit.start && before.end > edit.end)) return false;
  }
  return true;
}

/** Removes the members that `unwanted` selects, with their commas. */
export function removeMembers(shape: ObjectShape, unwanted: (member: JsonMember) => boolean): Edit[] {
  return removeSpans(
    shape.members.map((member) => ({ start: member.keyStart, end: member.end, unwanted: unwanted(member) })),
  );
}

/** Removes the unwanted members or elements of a list, with their commas. */
export function removeSpans(
  spans: readonly { readonly start: number; readonly end: number; readonly unwanted: boolean }[],
): Edit[] {
  const edits: Edit[] = [];
  for (let first = 0; first < spans.length; first++) {
    const from = spans[first];
    if (from?.unwanted !== true) continue;
    let last = first;
    while (spans[last + 1]?.unwanted === true) last++;
    const after = spans[last + 1];
    const before = spans[first - 1];
    const end = (spans[last] ?? from).end;
    if (after !== undefined) edits.push(removeRange(from.start, after.start));
    else edits.push(removeRange(before?.end ?? from.start, end));
    first = last;
  }
  return edits;
}

export function replaceValue(member: { readonly start: number; readonly end: number }, text: string): Edit {
  return { start: member.start, end: member.end, text };
}

function removeRange(start: number, end: number): Edit {
  return { start, end, text: '' };
}
