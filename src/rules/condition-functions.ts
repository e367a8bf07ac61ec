import { RE2JS } from 're2js';

/** Steps of matching, at most, in one judgement: what a text may cost, however it was written. */
const mostSteps = 4_000_000;
const largestProgram = 2000;

const compiled = new Map<string, RE2JS>();
let steps = 0;

/** Each judgement starts with a budget of its own. */
export function renewBudget(): void {
  steps = 0;
}

/** What the pattern of `re` or `glob` cannot be, in words; undefined when it can. It is compiled once, here. */
export function patternProblem(kind: 're' | 'glob', pattern: string): string | undefined {
  try {
    const program = RE2JS.compile(kind === 're' ? pattern : globSource(pattern));
    if (program.programSize() > largestProgram) return `the pattern ${JSON.stringify(pattern)} is too large`;
    compiled.set(`${kind} ${pattern}`, program);
    return undefined;
  } catch (error) {
    const why = (error as Error).message.replace(/^error parsing regexp: /, '');
    return `the pattern ${JSON.stringify(pattern)} is not valid: ${why}`;
  }
}

/** Matching by RE2: in time that grows with the text, whatever pattern and text are. */
export function matchesPattern(kind: 're' | 'glob', text: string, pattern: string): boolean {
  const program = compiled.get(`${kind} ${pattern}`);
  if (program === undefined) throw new Error(`the pattern of ${kind}() must be written in the rule itself`);
  steps += text.length * (program.programSize() + 20);
  if (steps > mostSteps) throw new Error(`the text is too long for ${kind}()`);
  return program.test(text);
}

/** As paths are written: `*` and `?` stop at "/", `**` does not. The whole text must match. */
function globSource(pattern: string): string {
  const parts = pattern.match(/\*+|\?|[^*?]+/g) ?? [];
  const source = parts.map((part) => {
    if (part === '?') return '[^/]';
    if (part.startsWith('*')) return part.length === 1 ? '[^/]*' : '.*';
    return RE2JS.quote(part);
  });
  return `(?s)\\A${source.join('')}\\z`;
}

/**
 * Whether a path is a folder or lies in it, by its text alone. Throws where the text does not tell: then the rule
 * denies, whichever way round it was written.
 */
export function isUnder(path: string, root: string): boolean {
  const [inner, outer] = [namesOf(path), namesOf(root)];
  if (inner.absolute !== outer.absolute) throw new Error('one path is absolute and the other is not');
  return outer.names.every((name, index) => name === inner.names[index]);
}

function namesOf(path: string): { readonly absolute: boolean; readonly names: readonly string[] } {
  if (path === '' || /[\\\u0000]|^~/.test(path)) throw new Error('a path that cannot be judged by its text');
  const absolute = path.startsWith('/');
  const names: string[] = [];
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.pop() === undefined && !absolute) throw new Error('a path that leads out of where it starts');
  }
  return { absolute, names };
}
