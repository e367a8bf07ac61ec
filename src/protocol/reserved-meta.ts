import { type Edit, removeMembers, removeSpans, replaceValue } from './json/edit.ts';
import { findReading, foldKey, isOddKey, readsAs } from './json/fold-key.ts';
import { decodeStringToken, findStringEnd, isFollowedByColon } from './json/json-strings.ts';
import { type JsonMember, readShape, readStringValue } from './json/scan.ts';
import type { Message } from './message.ts';

/** The `_meta` keys that only Ambit may write or read. */
export interface ReservedKeys {
  has(key: string): boolean;
}

/** Whether a key is `ambit`, or starts with `ambit/` or `ambit.`, in any spelling that some reader takes for it. */
export function isReservedKey(key: string): boolean {
  // The first letter rules out nearly every key.
  const first = key.charCodeAt(0);
  if ((first | 0x20) !== 0x61 && first > 0x20 && first < 0x7f) return false;
  if (isOddKey(key) && readsAs(key, 'ambit')) return true;
  const folded = foldKey(key);
  if (!folded.startsWith('ambit')) return false;
  return folded.length === 5 || folded[5] === '/' || folded[5] === '.';
}

const ambitKeys: ReservedKeys = { has: isReservedKey };

/** Creates the set of reserved keys: Ambit's, and other names under which a client may announce a workspace. */
export function createReservedKeys(announceKeys: readonly string[]): ReservedKeys {
  const others = announceKeys.map(foldKey).filter((key) => key !== 'ambit');
  if (others.length === 0) return ambitKeys;
  const announced = new Set(others.flatMap((key) => [key, `${key}.workspace`]));
  return { has: (key) => isReservedKey(key) || findReading(key, announced) !== undefined };
}

/** Members of most messages that cannot contain reserved keys. */
const unaffectedKeys = new Set([
  'name',
  'arguments',
  'uri',
  'cursor',
  'content',
  'structuredContent',
  'isError',
  'resultType',
]);
const holderKeys = new Set(['_meta', 'inputresponses', 'inputrequests']);

/**
 * Removes reserved keys from every `_meta` that a reader may find, even if it occurs twice or in another spelling.
 * Covers the questions and answers that MCP 2026-07-28 puts into results and requests.
 */
export function stripReservedMeta(message: Message, keys: ReservedKeys = ambitKeys): Edit[] {
  const edits: Edit[] = [];
  const { bytes } = message;
  for (const member of (message.params ?? message.result)?.shape?.members ?? []) {
    switch (unaffectedKeys.has(member.key) ? '' : findReading(member.key, holderKeys)) {
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

function stripHolder(bytes: Buffer, holder: JsonMember, keys: ReservedKeys, edits: Edit[]): void {
  for (const member of membersAt(bytes, holder)) {
    if (readsAs(member.key, '_meta')) stripMeta(bytes, member, keys, edits);
  }
}

function stripMeta(bytes: Buffer, member: JsonMember, keys: ReservedKeys, edits: Edit[]): void {
  const meta = readShape(bytes, member);
  if (meta === undefined) return;
  let unwanted: Set<JsonMember> | undefined;
  for (const each of meta.members) {
    if (keys.has(each.key)) unwanted = (unwanted ?? new Set()).add(each);
    else if (isBaggageKey(each.key)) {
      const text = readStringValue(bytes, each);
      const rest = text === undefined ? undefined : stripReservedBaggage(text);
      if (rest === text || rest === undefined) continue;
      if (rest === '') unwanted = (unwanted ?? new Set()).add(each);
      else edits.push(replaceValue(each, JSON.stringify(rest)));
    }
  }
  if (unwanted === undefined) return;
  const all = unwanted;
  edits.push(...removeMembers(meta, (each) => all.has(each)));
}

function isBaggageKey(key: string): boolean {
  const first = key.charCodeAt(0);
  const isOther = (first | 0x20) !== 0x62 && first > 0x20 && first < 0x7f;
  return !isOther && readsAs(key, 'baggage');
}

function membersAt(bytes: Buffer, member: JsonMember): readonly JsonMember[] {
  return readShape(bytes, member)?.members ?? [];
}

/** Length that every platform passes on, by W3C; a longer value may be dropped. */
const maxBaggageLength = 8192;

/** Removes W3C baggage members whose key could pass for ours. A value that is too long is dropped. */
export function stripReservedBaggage(baggage: string): string {
  if (baggage.length > maxBaggageLength) return '';
  const members = baggage.split(',');
  const kept = members.filter((member) => {
    const [key = ''] = /^[^=;]*/.exec(member) ?? [];
    return !foldKey(decodePercentEscapes(key.trim())).startsWith('ambit');
  });
  return kept.length === members.length ? baggage : kept.join(',');
}

/** Decodes run by run: an invalid escape must not hide the others. */
function decodePercentEscapes(key: string): string {
  return key
    .replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll('%', ''), 'hex').toString('utf8'))
    .trim();
}

interface MemberSpan {
  readonly start: number;
  end: number;
  readonly unwanted: boolean;
}

/**
 * Removes reserved keys from every `_meta` inside a JSON value, at any depth, in one pass. The bytes must be valid
 * JSON. The `_meta` of the value itself is kept unless `withOwnMeta` is set, since Ambit may have written it.
 */
export function stripNestedMeta(
  bytes: Buffer,
  { start, end }: Pick<JsonMember, 'start' | 'end'>,
  withOwnMeta = false,
): Edit[] {
  const edits: Edit[] = [];
  // The open objects and arrays. Members are recorded for a `_meta` only.
  const open: { readonly members: MemberSpan[] | undefined; holdsMeta: boolean }[] = [];
  /** End of the last value. */
  let last = start;

  function endMember(): void {
    const member = open.at(-1)?.members?.at(-1);
    if (member !== undefined) member.end = last;
  }

  function readText(at: number): number {
    const after = findStringEnd(bytes, at);
    const inside = open.at(-1);
    if (inside === undefined || !isFollowedByColon(bytes, after)) return after;
    const key = decodeStringToken(bytes, at, after);
    inside.holdsMeta = readsAs(key, '_meta');
    inside.members?.push({ start: at, end: after, unwanted: isReservedKey(key) });
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
        const isMeta = (withOwnMeta || open.length > 1) && open.at(-1)?.holdsMeta === true;
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
  return dropNestedEdits(edits);
}

/** Drops edits inside a range that is removed as a whole. */
function dropNestedEdits(edits: Edit[]): Edit[] {
  let covered = -1;
  return edits
    .sort((one, other) => one.start - other.start || other.end - one.end)
    .filter((edit) => {
      if (edit.end <= covered) return false;
      covered = edit.end;
      return true;
    });
}
