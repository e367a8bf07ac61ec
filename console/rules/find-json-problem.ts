/** Says why a text cannot be the arguments of a call; undefined if it can, or is empty. */
export function findJsonProblem(text: string): string | undefined {
  if (text.trim() === '') return undefined;
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return undefined;
    return 'Arguments are a JSON object, such as {"path": "README.md"}.';
  } catch {
    const at = findFault(text);
    const before = text.slice(0, at).split('\n');
    const place = `line ${before.length}, column ${(before.at(-1) ?? '').length + 1}`;
    return `This is not valid JSON: ${at === text.length ? 'it ends too early, at' : 'see'} ${place}.`;
  }
}

const blank = /[ \t\n\r]*/y;
const token =
  /[{}[\],:]|"(?:[^"\\\0-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*"|(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-])/y;

/** What may come next. In `first`, the container may also end. */
type Expected = 'value' | 'first value' | 'name' | 'first name' | 'colon' | 'end';

/** Finds where a text stops being JSON. The errors of browsers name the place only for some faults. */
function findFault(text: string): number {
  const open: string[] = [];
  let expected: Expected | undefined = 'value';
  for (let at = 0; ; ) {
    blank.lastIndex = at;
    at += blank.exec(text)?.[0].length ?? 0;
    token.lastIndex = at;
    const [word] = token.exec(text) ?? [''];
    expected = readToken(word, expected, open);
    if (expected === undefined) return at;
    at += word.length;
  }
}

/** Reads a token; undefined if it must not stand here. `open` has the brackets that are not closed yet. */
function readToken(word: string, expected: Expected, open: string[]): Expected | undefined {
  const wantsValue = expected === 'value' || expected === 'first value';
  const inObject = open.at(-1) === '{';
  if (word === '{' || word === '[') {
    open.push(word);
    return wantsValue ? (word === '{' ? 'first name' : 'first value') : undefined;
  }
  if (word === '}' || word === ']') {
    const isFirst = expected === (word === '}' ? 'first name' : 'first value');
    const closes = open.pop() === (word === '}' ? '{' : '[');
    return closes && (isFirst || expected === 'end') ? 'end' : undefined;
  }
  if (word === ',') return expected === 'end' && open.length > 0 ? (inObject ? 'name' : 'value') : undefined;
  if (word === ':') return expected === 'colon' ? 'value' : undefined;
  if (word.startsWith('"') && (expected === 'name' || expected === 'first name')) return 'colon';
  return word !== '' && wantsValue ? 'end' : undefined;
}
