/** The letters of the header of a block. */
const phrase = 'sessioncontextautoinjected';

/**
 * Letters that a reader takes for one of those in the phrase and that Unicode does not fold to it: other alphabets,
 * small capitals, letters without a dot. Digits and bars are read both ways, as a letter and as nothing.
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

/** What is written between the letters of a text, and not shown: tags, comments, targets of links, named characters. */
const markup =
  /<!--[^>]{0,500}-->|<\/?[a-z][^<>]{0,300}>|\]\([^()\s]{0,500}\)|&(?:[a-z][a-z0-9]{1,30}|#[0-9]{1,7}|#x[0-9a-f]{1,6});/iy;

const folded = new Map<string, string>();

/** How far before its end a look-alike may begin, and how much of one message is looked at closely. In characters. */
const longest = 2_000;
const mostLookedAt = 1_000_000;

/**
 * Finds where in a text something begins that reads like the header of a block. A text with so many endings of the
 * phrase that a close look would take long is marked at each of them.
 */
export function findLookAlikes(text: string): number[] {
  const found = new Set<number>();
  let [looked, lookedTo] = [0, 0];
  for (const { start, end } of findEndings(text, false)) {
    // The phrase has one j: what ends here begins after the ending before.
    const from = Math.max(lookedTo, start - longest);
    looked += end - from;
    lookedTo = end;
    if (looked > mostLookedAt) found.add(start);
    else for (const at of findIn(text.slice(from, end))) found.add(from + at);
  }
  return [...found].sort((one, other) => one - other);
}

function findIn(text: string): number[] {
  return [...findAsRead(text, true), ...findAsRead(text, false)];
}

function findAsRead(text: string, digitsAreLetters: boolean): number[] {
  const letters: string[] = [];
  const places: number[] = [];
  const add = (more: string, place: number) => {
    for (const letter of more) {
      letters.push(letter);
      places.push(place);
    }
  };
  for (let at = 0; at < text.length; ) {
    const char = String.fromCodePoint(text.codePointAt(at) as number);
    const skipped = char === '<' || char === '&' || char === ']' ? markupAt(text, at) : '';
    if (skipped !== '') add(foldLetters(namedCharacter(skipped)), at);
    else add(digitsAreLetters ? (readAsLetters.get(char) ?? foldLetters(char)) : foldLetters(char), at);
    at += skipped.length || char.length;
  }
  const line = letters.join('');
  const found: number[] = [];
  for (let at = line.indexOf(phrase); at !== -1; at = line.indexOf(phrase, at + phrase.length)) {
    found.push(places[at] as number);
  }
  return found;
}

function markupAt(text: string, at: number): string {
  markup.lastIndex = at;
  return markup.exec(text)?.[0] ?? '';
}

/** The character that a numeric reference stands for; nothing for a name, a tag or a target. */
function namedCharacter(markup: string): string {
  const [, base, digits] = /^&#(x?)([0-9a-f]+);$/i.exec(markup) ?? [];
  if (digits === undefined) return '';
  const code = Number.parseInt(digits, base === '' ? 10 : 16);
  return code <= 0x10ffff ? String.fromCodePoint(code) : '';
}

/** The letters a to z that somebody reads in a character; empty for one that is none, such as a blank or a mark. */
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

/** Every way to write the letter j, the rarest of the phrase, as far as one character tells; `&#` may stand for any. */
const eachJ = /[jJјЈϳᴊʝͿʲᴶⱼⅉｊＪ\u24b6-\u24e9\u{1d400}-\u{1d7ff}\u{1f110}-\u{1f1ff}]|&#/gu;
const afterJ = 'ected';

/**
 * Whether a text could hold a look-alike: a quick look for the end of the phrase, and all that most texts cost.
 * `isEscaped` says that it is JSON text: a backslash and the character after it are not letters, and the phrase may go on
 * in the string after a quote.
 */
export function mayHoldLookAlike(text: string, isEscaped: boolean): boolean {
  for (const _ of findEndings(text, isEscaped)) return true;
  return false;
}

/** Finds where the last letters of the phrase may lie, from the j on. */
function* findEndings(text: string, isEscaped: boolean): Generator<{ start: number; end: number }> {
  const anyJ = new RegExp(eachJ);
  for (let found = anyJ.exec(text); found !== null; found = anyJ.exec(text)) {
    const after = found[0] === '&#' ? found.index + markupAt(text, found.index).length : anyJ.lastIndex;
    const end = mayEndPhrase(text, found.index, isEscaped) ? endOfPhrase(text, after, isEscaped) : undefined;
    if (end !== undefined) yield { start: found.index, end };
  }
}

/** The letters of the phrase before its j, last one first. */
const beforeJ = [...phrase.slice(0, phrase.indexOf('j'))].reverse();

/**
 * Whether the letters before a j may be those of the phrase, as far as plain letters tell: they are not in "object" and
 * in "were injected". Everything else, such as markup, may be anything.
 */
function mayEndPhrase(text: string, at: number, isEscaped: boolean): boolean {
  let back = at - 1;
  for (const letter of beforeJ) {
    while (back >= 0 && (text[back] === ' ' || text[back] === '-')) back--;
    const char = text[back] ?? '';
    if (!/[a-z]/i.test(char) || (isEscaped && text[back - 1] === '\\')) return char !== '';
    if (char.toLowerCase() !== letter && !(letter === 'i' && /l/i.test(char))) return false;
    back--;
  }
  return true;
}

function endOfPhrase(text: string, from: number, isEscaped: boolean): number | undefined {
  let wanted = 0;
  let at = from;
  while (at < text.length && wanted < afterJ.length) {
    const char = String.fromCodePoint(text.codePointAt(at) as number);
    if (isEscaped && char === '"') return at;
    if (isEscaped && char === '\\') {
      at += 2;
      continue;
    }
    const skipped = char === '<' || char === '&' || char === ']' ? markupAt(text, at) : '';
    const letters = foldLetters(skipped === '' ? char : namedCharacter(skipped));
    if (letters.startsWith(afterJ[wanted] as string) || readAsLetters.get(char) === afterJ[wanted]) wanted++;
    else if (letters !== '') return undefined;
    at += skipped.length || char.length;
  }
  return wanted === afterJ.length ? at : undefined;
}
