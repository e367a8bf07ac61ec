import { type Edit, removeSpans } from './json/edit.ts';
import { readsAs } from './json/fold-key.ts';
import { endOfString, isFollowedByColon, stringAt } from './json/walk-strings.ts';
import { isOurKey } from './our-keys.ts';

interface Span {
  readonly start: number;
  readonly end: number;
}

interface MemberSpan {
  readonly start: number;
  end: number;
  readonly unwanted: boolean;
}

/** An object or array that is open. Members are kept of a `_meta` only. */
interface Open {
  readonly members: MemberSpan[] | undefined;
  holdsMeta: boolean;
}

/**
 * Takes our keys out of every `_meta` inside a value of bytes that are known to be valid JSON, however deep it lies, in
 * one pass. The `_meta` of the value itself stays, unless it is `foreign` too: some of it may be ours.
 */
export function stripInnerMetas(bytes: Buffer, { start, end }: Span, foreign = false): Edit[] {
  const edits: Edit[] = [];
  const open: Open[] = [];
  /** Where the last value ended. */
  let last = start;

  function endMember(): void {
    const member = open.at(-1)?.members?.at(-1);
    if (member !== undefined) member.end = last;
  }

  function readText(at: number): number {
    const after = endOfString(bytes, at);
    const inside = open.at(-1);
    if (inside === undefined || !isFollowedByColon(bytes, after)) return after;
    const key = stringAt(bytes, at, after);
    inside.holdsMeta = readsAs(key, '_meta');
    inside.members?.push({ start: at, end: after, unwanted: isOurKey(key) });
    return after;
  }

  for (let at = start; at < end; at++) {
    switch (bytes[at]) {
      case 0x22:
        last = readText(at);
        at = last - 1;
        break;
      case 0x7b:
      case 0x5b: {
        const isMeta = (foreign || open.length > 1) && open.at(-1)?.holdsMeta === true;
        open.push({ members: isMeta && bytes[at] === 0x7b ? [] : undefined, holdsMeta: false });
        break;
      }
      case 0x7d:
      case 0x5d:
        endMember();
        edits.push(...removeSpans(open.pop()?.members ?? []));
        last = at + 1;
        break;
      case 0x2c:
        endMember();
        break;
      case 0x3a:
      case 0x20:
      case 0x0a:
      case 0x0d:
      case 0x09:
        break;
      default:
        last = at + 1;
    }
  }
  return outermost(edits);
}

/** What lies in a part that is taken out goes with it. */
function outermost(edits: Edit[]): Edit[] {
  let covered = -1;
  return edits
    .sort((one, other) => one.start - other.start || other.end - one.end)
    .filter((edit) => {
      if (edit.end <= covered) return false;
      covered = edit.end;
      return true;
    });
}
