import { originalsOf } from '../lib/fs/copied-names.ts';
import { expandBraces } from '../lib/text/braces.ts';
import { foldName } from '../lib/text/fold-name.ts';
import { compileGlob, type Glob } from '../lib/text/glob.ts';
import type { PathRules } from './path-rules.ts';

export interface PathGuard {
  /** Why it may not be, as the rest of a sentence about the path; undefined when it may. */
  refusal(deed: 'read' | 'write', names: readonly string[]): string | undefined;
  /** Whether the operator has freed it by name. */
  isOpened(names: readonly string[]): boolean;
}

/** What is told of something that is read only. */
export const readOnlyReason = 'may be read by sessions, but not changed';

const HIDDEN = 1;
const KEPT = 2;
const OPEN = 4;
const SHOWN = 8;
const SECRET = 16;

interface PathRule {
  readonly bit: number;
  readonly glob: Glob;
  /** It is about a name in any folder, not about a path. */
  readonly anywhere: boolean;
  /** What the last name of a path must fit for the path to; undefined where that cannot be told. */
  readonly last: Glob | undefined;
}

/** What the rules say of a name by itself. */
interface NameVerdict {
  readonly bits: number;
  readonly forms: readonly string[];
  /** The rules about paths that may end in it. */
  readonly paths: readonly PathRule[];
  /** What it may be a copy of. */
  readonly originals: readonly Omit<NameVerdict, 'originals'>[];
}

/** Names come in great numbers and few kinds. */
const maxRemembered = 10_000;

/**
 * Decides by names alone, folder by folder down to the file: whatever fits a folder holds for all that is in it, until
 * a pattern that opens fits further in.
 */
export function createPathGuard(rules: PathRules): PathGuard {
  const all = [
    ...compileRules(rules.hidden, HIDDEN),
    ...compileRules(rules.secret ?? [], SECRET),
    ...compileRules(rules.kept, KEPT),
    ...compileRules(rules.open, OPEN),
    ...compileRules(rules.shown ?? [], SHOWN),
  ];
  const byName = all.filter(({ anywhere }) => anywhere);
  const byPath = all.filter(({ anywhere }) => !anywhere);
  const remembered = new Map<string, NameVerdict>();

  function judgeName(name: string): Omit<NameVerdict, 'originals'> {
    const forms = listSpellings(name);
    return {
      bits: matchRules(
        byName,
        forms.map((form) => [form]),
      ),
      forms,
      paths: byPath.filter(({ last }) => last === undefined || forms.some((form) => last.fits([form]))),
    };
  }

  function findNameVerdict(name: string): NameVerdict {
    const known = remembered.get(name);
    if (known !== undefined) return known;
    const verdict = { ...judgeName(name), originals: originalsOf(foldName(name)).map(judgeName) };
    if (remembered.size >= maxRemembered) remembered.clear();
    remembered.set(name, verdict);
    return verdict;
  }

  /** What holds at the end of the names: that it is closed in some way, or opened. */
  function judgePath(names: readonly string[]): number {
    let verdict = 0;
    let ways: string[][] = [[]];
    for (const name of names) {
      const { bits: own, forms, paths, originals } = findNameVerdict(name);
      let bits = own;
      for (const original of originals) bits |= findProtection(original, ways);
      if (byPath.length > 0) {
        if (ways.length === 1 && forms.length === 1) ways[0]?.push(forms[0] as string);
        else ways = ways.flatMap((way) => forms.map((form) => [...way, form])).slice(0, maxPaths);
        if (paths.length > 0) bits |= matchRules(paths, ways);
      }
      const closed = bits & (HIDDEN | KEPT | SECRET);
      if (closed !== 0) verdict = (verdict | closed) & ~OPEN;
      if (bits & OPEN) verdict = OPEN;
      if (bits & SHOWN) verdict &= ~SECRET;
    }
    return verdict;
  }

  return {
    refusal(deed, names) {
      const verdict = judgePath(names);
      if (verdict & (HIDDEN | SECRET)) return 'is hidden from sessions';
      return verdict & KEPT && deed === 'write' ? readOnlyReason : undefined;
    },
    isOpened: (names) => (judgePath(names) & OPEN) !== 0,
  };
}

/** Only names that are written oddly have more than one form. */
const maxPaths = 16;

/** How a copy is closed because of what it is a copy of, in the folders that lead there. Nothing opens it by that name. */
function findProtection(
  { bits: own, forms, paths }: Omit<NameVerdict, 'originals'>,
  above: readonly (readonly string[])[],
): number {
  const ways = paths.length === 0 ? [] : above.flatMap((way) => forms.map((form) => [...way, form])).slice(0, maxPaths);
  const bits = own | (paths.length === 0 ? 0 : matchRules(paths, ways));
  return bits & (bits & SHOWN ? HIDDEN | KEPT : HIDDEN | KEPT | SECRET);
}

/** What opens must fit the plain form: an odd way of writing a name can only close it. */
function matchRules(rules: readonly PathRule[], ways: readonly (readonly string[])[]): number {
  let bits = 0;
  for (const { bit, glob } of rules) {
    if ((bits & bit) !== 0) continue;
    const opens = bit === OPEN || bit === SHOWN;
    if (opens ? ways.length === 1 && glob.fits(ways[0] as readonly string[]) : ways.some((way) => glob.fits(way))) {
      bits |= bit;
    }
  }
  return bits;
}

const compileRules = (patterns: readonly string[], bit: number): PathRule[] =>
  patterns
    .flatMap((pattern) => expandBraces(foldName(pattern)))
    .map((pattern) => ({
      bit,
      glob: compileGlob(pattern),
      anywhere: isSingleName(pattern),
      last: compileLastName(pattern),
    }));

function compileLastName(pattern: string): Glob | undefined {
  const last =
    pattern
      .replace(/(?<!\/)\/+$/, '')
      .split('/')
      .at(-1) ?? '';
  return /^\*\*|[[\\]/.test(last) || pattern.includes('[') || last === '' ? undefined : compileGlob(last);
}

const isSingleName = (pattern: string): boolean => !pattern.replace(/^(?:\.\/)+|(?<!\/)\/+$/g, '').includes('/');

/** The spelling of a name, and what is left of it where dots and blanks at its end, or all after a colon, do not count. */
function listSpellings(name: string): readonly string[] {
  const plain = foldName(name);
  const bare = (text: string) => text.replace(/(?<![. ])[. ]+$/, '');
  const forms = new Set([plain, bare(plain), bare(plain.split(':')[0] as string)]);
  forms.delete('');
  return forms.size === 0 ? [plain] : [...forms];
}
