import { isAscii } from 'node:buffer';
import { AmbitError } from '../../errors.ts';
import { composeRequestRefusal } from '../../protocol/compose-message.ts';
import { applyEdits, type Edit, replaceValue } from '../../protocol/json/edit.ts';
import { decodeStringToken, walkStrings } from '../../protocol/json/json-strings.ts';
import type { JsonMember } from '../../protocol/json/scan.ts';
import { applyMessageEdits, type Message, readMessage } from '../../protocol/message.ts';
import { stripNestedMeta } from '../../protocol/reserved-meta.ts';

export const forgedBlockMark = '[written by a tool, not by Ambit]';

/** Limit of look-alikes in a message. One with more has no other purpose, and marking them would take long. */
const maxLookAlikes = 1000;

/** Members of a result, or of the parameters of a push, that programs read and models do not; compared exactly. */
const programMembers = new Set(['_meta', 'nextCursor', 'requestState', 'taskId']);
/** Lists of what a server offers. Their names and addresses identify the entries, so they stay unchanged. */
const offers = new Set(['tools', 'prompts', 'resources', 'resourceTemplates', 'contents']);
const offerMembers = new Set(['_meta', 'name', 'uri', 'uriTemplate', 'mimeType', 'blob']);
const blockMembers = new Set(['_meta', 'type', 'role', 'uri', 'mimeType', 'blob', 'data']);

/**
 * Marks everything in a message of an upstream that reads like the header of a context block, and removes reserved keys
 * from every `_meta` but the first, which the links have checked. Returns the same bytes where there is nothing to do.
 */
export function markForgedBlocks(bytes: Buffer): Buffer {
  const text = dropControlEscapes(bytes.toString('utf8'));
  const plain = text.includes('\\u')
    ? text.replace(/\\u([0-9a-f]{4})/gi, (_, hex) => String.fromCharCode(Number.parseInt(hex, 16)))
    : text;
  const stripped = mayContainOurKey(bytes, text) ? stripOurKeys(bytes) : bytes;
  return mayContainLookAlike(plain, true) ? addMarks(readMessage(stripped)) : stripped;
}

/**
 * Removes escapes of control characters, of which coloured and binary output has millions. They are no letters of a header
 * or a key. A backslash that is itself escaped stays.
 */
function dropControlEscapes(text: string): string {
  return text.includes('\\u00') ? text.replace(/(\\\\)|\\u00[01][0-9a-f]/gi, '$1') : text;
}

/** Tells whether a `_meta` may contain a reserved key, also one spelled with look-alike or ignored characters. */
function mayContainOurKey(bytes: Buffer, text: string): boolean {
  return !isAscii(bytes) || text.includes('\\u') || (/_[Mm][Ee][Tt][Aa]/.test(text) && /ambit/i.test(text));
}

function stripOurKeys(bytes: Buffer): Buffer {
  const message = readMessage(bytes);
  const { params, result, error } = message;
  const edits = [params, result].flatMap((holder) => (holder === undefined ? [] : stripNestedMeta(bytes, holder)));
  if (error !== undefined) edits.push(...stripNestedMeta(bytes, error, true));
  return applyMessageEdits(message, edits).bytes;
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

function dropContent(message: Message, { start, end }: JsonMember): Buffer {
  if (message.kind !== 'response') return applyEdits(message.bytes, [replaceValue({ start, end }, '{}')]);
  const what = `The answer of the server imitates the context block of Ambit more than ${maxLookAlikes} times.`;
  return composeRequestRefusal(
    message.id ?? 'null',
    new AmbitError('UPSTREAM_TOO_LARGE', { what, hint: 'Do not use this answer.' }),
  );
}

/** Finds the texts of a value that a model may read, in their order, with the names of members. */
function readTexts(bytes: Buffer, { start, end }: JsonMember): MessageText[] {
  const found: MessageText[] = [];
  walkStrings(bytes, start, end, (from, to, keys, isKey) => {
    if (isForPrograms(keys)) return;
    found.push({ span: { start: from, end: to }, text: decodeStringToken(bytes, from, to), isKey });
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

/** Marks look-alikes in adjacent texts, with the names of members and without. False when there are too many. */
function markTexts(texts: readonly MessageText[], edits: Edit[]): boolean {
  const values = texts.filter(({ isKey }) => !isKey);
  const offsetsByText = new Map<MessageText, Set<number>>();
  for (const row of values.length === texts.length ? [values] : [values, texts]) {
    const found = findLookAlikesInRow(row);
    if (found.length > maxLookAlikes) return false;
    for (const [text, at] of found) offsetsByText.set(text, (offsetsByText.get(text) ?? new Set()).add(at));
  }
  for (const [{ span, text }, found] of offsetsByText) {
    const here = [...found].sort((one, other) => one - other);
    const parts = [0, ...here].map((from, index) => text.slice(from, here[index]));
    edits.push(replaceValue(span, JSON.stringify(parts.join(`${forgedBlockMark} `))));
  }
  return true;
}

/** Finds where look-alikes begin in adjacent texts. One may begin in a text and end in the next. */
function findLookAlikesInRow(row: readonly MessageText[]): [MessageText, number][] {
  const whole = row.map(({ text }) => text).join('\n');
  if (!mayContainLookAlike(whole, false)) return [];
  const found = findLookAlikes(whole, maxLookAlikes + 1);
  const offsetsByText: [MessageText, number][] = [];
  let [start, next] = [0, 0];
  for (const text of row) {
    for (let at = found[next]; at !== undefined && at < start + text.text.length; at = found[++next]) {
      offsetsByText.push([text, at - start]);
    }
    start += text.text.length + 1;
  }
  return offsetsByText;
}

/** The letters of the header of a block. */
const phrase = 'sessioncontextautoinjected';

/**
 * Letters that look like one of the phrase and that Unicode does not fold to it: other alphabets, small capitals,
 * letters without a dot. Digits and bars are tried both as a letter and as nothing.
 */
const lookAlikes: Readonly<Record<string, string>> = {
  a: 'аАαΑɑᴀⱭ∀',
  c: 'сСϲᴄⲥⲤϹ',
  d: 'ԁԀᴅɗժ',
  e: 'еЕεΕєЄҽᴇℯ℮ɛЭэ',
  i: 'іІιΙıɩɪӏӀlLǀ׀ⵏ',
  j: 'јЈϳᴊʝͿ',
  n: 'ηΝɴոռпПⲚи',
  o: 'оОοΟσօՕᴏ०੦০໐ⲟⲞ',
  s: 'ѕЅꜱƽՏⅎ',
  t: 'тТτΤᴛⲦ†',
  u: 'υսᴜʋцՍ∪',
  x: 'хХχΧ×ᕁⲭⲬ⨯',
};
const lettersFor = new Map(
  Object.entries(lookAlikes).flatMap(([letter, all]) => [...all].map((each) => [each, letter])),
);
const readAsLetters = new Map([
  ...Object.entries({ 0: 'o', 1: 'i', 3: 'e', 4: 'a', 5: 's', 7: 't', '|': 'i', '!': 'i', $: 's' }),
]);

/** Letters in squares and circles that Unicode does not fold: from this code point on, 26 each. */
const boxed = [0x1f150, 0x1f170, 0x1f1e6];

/** Markup between letters that is not shown: tags, link targets, character references. */
const markup = /<\/?[a-z][^<>]{0,300}>|\]\([^()\s]{0,500}\)|&(?:[a-z][a-z0-9]{1,30}|#[0-9]{1,7}|#x[0-9a-f]{1,6});/iy;
const commentStart = '<!--';
const maxCommentLength = 500;

const folded = new Map<string, string>();

/** Finds the offsets at which something begins that reads like the header of a block; at most `max`. */
export function findLookAlikes(text: string, max: number): number[] {
  const found = new Set([...findPhrase(text, true, max), ...findPhrase(text, false, max)]);
  return [...found].sort((one, other) => one - other);
}

/** Searches in one pass. Only the offsets of the last letters are kept, not the letters. */
function findPhrase(text: string, digitsAreLetters: boolean, max: number): number[] {
  const offsets = new Int32Array(phrase.length);
  const found: number[] = [];
  let [seen, fitting] = [0, 0];
  const add = (letter: number, offset: number) => {
    while (fitting > 0 && codes[fitting] !== letter) fitting = shorter[fitting - 1] as number;
    if (codes[fitting] === letter) fitting++;
    offsets[seen++ % phrase.length] = offset;
    if (fitting < phrase.length) return;
    found.push(offsets[seen % phrase.length] as number);
    fitting = 0;
  };
  readLetters(text, 0, false, (letter, offset, isDigit) => {
    if (!isDigit || digitsAreLetters) add(letter, offset);
    return found.length < max;
  });
  return found;
}

const quote = 0x22;

/**
 * Handles a letter, or a quote of JSON text, and returns whether to go on. A digit may stand for a letter or nothing.
 */
type VisitLetter = (letter: number, offset: number, isDigit: boolean) => boolean;

/** Reads the letters of a text from an offset on, each by its code and its offset. */
function readLetters(text: string, from: number, isEscaped: boolean, visit: VisitLetter): void {
  for (let at = from; at < text.length; ) {
    let code = text.charCodeAt(at);
    if (code >= 0xd800 && code <= 0xdbff) code = text.codePointAt(at) as number;
    if (isEscaped && code === 0x5c) {
      at += 2;
      continue;
    }
    if (isEscaped && code === quote && !visit(quote, at, false)) return;
    const skipped = mayBeginMarkup(code) ? readMarkup(text, at) : '';
    const known = skipped === '' ? readAs[code] || classifyCharacter(code) : several;
    if (known === several) {
      const letters = foldLetters(skipped === '' ? String.fromCodePoint(code) : readCharacterReference(skipped));
      for (let i = 0; i < letters.length; i++) if (!visit(letters.charCodeAt(i), at, false)) return;
    } else if (known !== none && !visit(known & 0x7f, at, known > 0x7f)) return;
    at += skipped.length || (code > 0xffff ? 2 : 1);
  }
}

/** The reading of each character, once known: the code of a letter, with a further bit for a digit. */
const readAs = new Uint8Array(0x110000);
const none = 1;
const several = 2;

function classifyCharacter(code: number): number {
  const char = String.fromCodePoint(code);
  const letters = foldLetters(char);
  const meant = readAsLetters.get(char);
  const known =
    meant !== undefined
      ? meant.charCodeAt(0) | 0x80
      : letters.length > 1
        ? several
        : letters.length === 1
          ? letters.charCodeAt(0)
          : none;
  readAs[code] = known;
  return known;
}

const mayBeginMarkup = (code: number): boolean => code === 0x3c || code === 0x26 || code === 0x5d;

function readMarkup(text: string, at: number): string {
  if (text.startsWith(commentStart, at)) return readComment(text, at);
  markup.lastIndex = at;
  return markup.exec(text)?.[0] ?? '';
}

/** Reads a comment that ends with the first ">"; empty when there is none. */
function readComment(text: string, at: number): string {
  const from = at + commentStart.length;
  const body = text.slice(from, from + maxCommentLength + 3);
  const end = body.indexOf('>');
  return end >= 2 && body.startsWith('--', end - 2) ? text.slice(at, from + end + 1) : '';
}

/** Reads the character of a numeric reference; empty for a name, a tag or a link target. */
function readCharacterReference(markup: string): string {
  const [, base, digits] = /^&#(x?)([0-9a-f]+);$/i.exec(markup) ?? [];
  if (digits === undefined) return '';
  const code = Number.parseInt(digits, base === '' ? 10 : 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : '';
}

/** Returns the letters a to z that a reader sees in a character; empty for one that is no letter, such as a blank. */
function foldLetters(char: string): string {
  if (char === '') return '';
  const known = folded.get(char);
  if (known !== undefined) return known;
  const code = char.codePointAt(0) as number;
  const start = boxed.find((first) => code >= first && code < first + 26);
  const plain = start === undefined ? char : String.fromCharCode(0x61 + code - start);
  const letters = [...plain.normalize('NFKD')]
    .map((each) => lettersFor.get(each) ?? lettersFor.get(each.toLowerCase()) ?? each.toLowerCase())
    .join('')
    .replace(/[^a-z]/g, '');
  if (folded.size < 10_000) folded.set(char, letters);
  return letters;
}

const codes = Uint8Array.from(phrase, (letter) => letter.charCodeAt(0));
/** The failure table of the search: for each prefix of the phrase, the longest shorter prefix that it ends with. */
const shorter = Array.from(phrase, (_, last) => {
  const begun = phrase.slice(0, last + 1);
  let length = last;
  while (length > 0 && !begun.endsWith(phrase.slice(0, length))) length--;
  return length;
});
/** The end of the phrase, from its rarest letter on, which occurs once. */
const tail = codes.subarray(phrase.indexOf('j'));

/** Every character that reads as a j, from the Unicode blocks of styled letters. */
const dressedJs = [
  [0x249c, 0x24e9],
  [0x1d400, 0x1d7ff],
  [0x1f110, 0x1f1ff],
].flatMap(([first = 0, last = 0]) =>
  Array.from({ length: last - first + 1 }, (_, index) => String.fromCodePoint(first + index)).filter((char) =>
    foldLetters(char).includes('j'),
  ),
);
/** All spellings of that letter, unless the letter after it rules the phrase out; `&#` may stand for any letter. */
const anyJ = new RegExp(`[jJјЈϳᴊʝͿʲᴶⱼⅉｊＪǰǊǋǌ${dressedJs.join('')}](?![a-df-zA-DF-Z])|&#`, 'gu');
/** Beyond this many candidates it is faster to read the rest as a whole. */
const maxCandidates = 50_000;

/**
 * Tells whether a text could contain a look-alike. This quick search for the end of the phrase is all that most texts
 * cost. `isEscaped` means JSON text: a backslash and the character after it are not letters, and the phrase may
 * continue in the string after a quote.
 */
export function mayContainLookAlike(text: string, isEscaped: boolean): boolean {
  anyJ.lastIndex = 0;
  for (let candidates = 0; candidates < maxCandidates; ) {
    const found = anyJ.exec(text);
    if (found === null) return false;
    const { index } = found;
    if (!mayEndPhrase(text, index, isEscaped)) continue;
    candidates++;
    // A reference to any other character would be searched behind without end.
    if (found[0] === '&#' && !foldLetters(readCharacterReference(readMarkup(text, index))).includes('j')) continue;
    if (containsTail(text, index, isEscaped, true)) return true;
  }
  return containsTail(text, anyJ.lastIndex, isEscaped, false);
}

const firstJ = phrase.indexOf('j');
const letterI = 0x69;
const letterL = 0x6c;

/**
 * Tells whether the letters before a j may belong to the phrase, as far as plain letters show: not in "object" or "were
 * injected". Anything else, such as markup, may be anything.
 */
function mayEndPhrase(text: string, at: number, isEscaped: boolean): boolean {
  if ((text.charCodeAt(at) | 0x20) !== codes[firstJ]) return true;
  let back = at - 1;
  for (let next = firstJ - 1; next >= 0; next--) {
    while (back >= 0 && isGap(text.charCodeAt(back))) back--;
    if (back < 0) return false;
    const letter = text.charCodeAt(back) | 0x20;
    if (letter < 0x61 || letter > 0x7a || (isEscaped && text.charCodeAt(back - 1) === 0x5c)) return true;
    if (letter !== codes[next] && !(codes[next] === letterI && letter === letterL)) return false;
    back--;
  }
  return true;
}

const isGap = (code: number): boolean => code === 0x20 || code === 0x2d;

function containsTail(text: string, from: number, isEscaped: boolean, isOnlyHere: boolean): boolean {
  let fitting = 0;
  let isCut = false;
  readLetters(text, from, isEscaped, (letter, offset, isDigit) => {
    isCut = letter === quote && fitting > 0;
    if (letter === quote) return !isCut;
    if (letter === tail[fitting]) fitting++;
    else if (!isDigit) {
      if (isOnlyHere && offset > from) return false;
      fitting = letter === tail[0] ? 1 : 0;
    }
    return fitting < tail.length;
  });
  return isCut || fitting === tail.length;
}
