import { copyText } from './copy-text.ts';

/** Words longer than this are data, not names. */
const maxWordLength = 64;
/** Sentences without spaces can be longer. */
const maxRunLength = 2000;
const maxCached = 50_000;
const maxTerms = 24;
const maxSpellings = 8;

/** Words of questions that say nothing about the code. */
const fillerWords = new Set(
  (
    'a about again all already also an and any are as at be because been before being but by can could did do does don done ' +
    'each even every for from get give given gives had has have how i if in instead into is it its just let like made make ' +
    'makes me more my no not of on once only or other our out own same should since so some such than that the their them ' +
    'then there these they this those to too up us use used uses using very was we were what when where whether which while ' +
    'who why will with without would you your defined implemented located happen happens'
  ).split(' '),
);

/** Scripts without spaces between words. They are compared by pairs of characters. */
const unspacedRun = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]{2,}/u;
const namePattern = /[\p{L}\p{N}_$]+/gu;
/** Parts of camelCase and snake_case names: `HTTPServer2` has HTTP, Server and 2. */
const partPattern = /\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{Lo}\p{Lm}\p{Lt}]+|\p{N}+/gu;
const lowerCaseWord = /^[a-z]+$/;

/** Words that programmers write in several ways. The first stands for all of the line. */
const sameWords = new Map(
  [
    'addr address addresses',
    'arg argument arguments args',
    'auth authentication authorization authenticate authorize',
    'bool boolean booleans',
    'buf buffer buffers',
    'cfg config configs configuration configurations configure',
    'cmd command commands',
    'conn connection connections connect connects',
    'ctx context contexts',
    'db database databases',
    'del delete deletes deleted deleting deletion remove removes removed removing removal',
    'dest dst destination destinations',
    'dir directory directories folder folders dirs',
    'doc document documents documentation docs',
    'env environment environments',
    'err error errors',
    'exec execute executes executed executing execution',
    'fn func function functions',
    'idx index indexes indices',
    'impl implementation implementations implement implements',
    'info information',
    'init initialize initializes initialized initialization initialise initialised',
    'int integer integers',
    'len length lengths',
    'lib library libraries',
    'max maximum',
    'min minimum',
    'msg message messages',
    'num number numbers',
    'obj object objects',
    'param parameter parameters params',
    'prev previous',
    'proc process processes',
    'prop property properties props',
    'ref reference references refs',
    'repo repository repositories',
    'req request requests',
    'resp response responses',
    'spec specification specifications',
    'src source sources',
    'ssl tls',
    'str string strings',
    'sync synchronize synchronized synchronization',
    'temp tmp temporary',
    'url uri',
    'util utility utilities utils',
    'val value values',
    'var variable variables',
  ].flatMap((line) => {
    const [first, ...others] = line.split(' ') as [string, ...string[]];
    return [first, ...others].map((word) => [word, first] as const);
  }),
);

const cachedWords = new Map<string, readonly string[]>();

/**
 * Lists the words of a text in a form that can be compared: lower case, without endings. A name such as `maxFileSize`
 * or `max_file_size` gives its parts and, joined, the whole.
 */
export function splitWords(text: string): string[] {
  const words: string[] = [];
  for (const [name] of text.matchAll(namePattern)) {
    if (name.length > maxWordLength) {
      if (unspacedRun.test(name)) for (const pair of splitPairs(name.slice(0, maxRunLength))) words.push(pair);
      continue;
    }
    let known = cachedWords.get(name);
    if (known === undefined) {
      const copy = copyText(name);
      known = splitName(copy);
      if (cachedWords.size >= maxCached) cachedWords.clear();
      cachedWords.set(copy, known);
    }
    for (const word of known) words.push(word);
  }
  return words;
}

/** Lists the words of a question that can be searched for, each once. */
export function splitQuestion(question: string): string[] {
  const kept: string[] = [];
  const filler: string[] = [];
  for (const [name] of question.matchAll(namePattern)) {
    (fillerWords.has(name.toLowerCase()) ? filler : kept).push(name);
  }
  const words = new Set(splitWords((kept.length > 0 ? kept : filler).join(' ')));
  const long = [...words].filter((word) => word.length > 1);
  return (long.length > 0 ? long : [...words]).slice(0, maxTerms);
}

/** Returns the words of a question as they are written in a text. Words that are not in it are left out. */
export function findSpellings(text: string, terms: readonly string[]): string[] {
  const spellings = new Map<string, string>();
  for (const [name] of text.matchAll(/[\p{L}\p{N}]+/gu)) {
    for (const word of splitWords(name)) {
      if (terms.includes(word) && !spellings.has(word)) spellings.set(word, name);
    }
  }
  return [...new Set(terms.flatMap((term) => spellings.get(term) ?? []))].slice(0, maxSpellings);
}

function splitName(name: string): readonly string[] {
  if (lowerCaseWord.test(name)) return [stemWord(name)];
  if (unspacedRun.test(name)) return splitPairs(name);
  const parts = name.match(partPattern) ?? [];
  const stems = parts.map((part) => stemWord(part.toLowerCase()));
  return parts.length > 1 ? [...stems, parts.join('').toLowerCase()] : stems;
}

function splitPairs(run: string): string[] {
  const characters = [...run];
  return characters.slice(1).map((character, index) => `${characters[index]}${character}`);
}

/** Endings that change the form of an English word but not its subject, the longest first. */
const endings = (
  'ations ators ating ation ator ated ates ' + 'ively ings ible able ives ions ing ive ion ers ed er es ly s e'
).split(' ');
const minStemLength = 3;

/** Removes the ending, so that "parse", "parses", "parsing" and "parser" are equal. The result need not be a word. */
function stemWord(word: string): string {
  const same = sameWords.get(word);
  if (same !== undefined) return same;
  if (word.length <= minStemLength || /[^a-z]|(?:ss|us|is)$/.test(word)) return word;
  if (word.length > 4 && /(?:ies|ied)$/.test(word)) return `${word.slice(0, -3)}y`;
  const ending = endings.find((each) => word.endsWith(each) && word.length - each.length >= minStemLength);
  if (ending === undefined) return word;
  const stem = word.slice(0, -ending.length);
  if (!/[aeiouy]/.test(stem) || (ending === 'ly' && stem.length < 5)) return word;
  // "validate" and "validation" have the same stem.
  if (ending.startsWith('at')) return `${stem}at`;
  // "running" has the stem of "run", but "telling" has that of "tell".
  const isDoubled = /([bdgmnprt])\1$/.test(stem) && /^(?:ing|ings|ed|er|ers)$/.test(ending);
  return isDoubled ? stem.slice(0, -1) : stem;
}
