import { foldName } from '../lib/text/fold-name.ts';
import { compileGlob, expandBraces, type Glob } from '../lib/text/glob.ts';
import { findOriginalNames } from '../lib/text/name-patterns.ts';
import type { PathRules } from './path-rules.ts';

export interface PathGuard {
  /** Returns the reason for a refusal, as the rest of a sentence about the path, or undefined. */
  refusal(access: 'read' | 'write', names: readonly string[]): string | undefined;
  /** Tells whether a rule of the operator opens the path. */
  isOpened(names: readonly string[]): boolean;
}

export const readOnlyReason = 'may be read by sessions, but not changed';

const HIDDEN = 1;
const KEPT = 2;
const OPEN = 4;
const SHOWN = 8;
const SECRET = 16;

interface PathRule {
  readonly bit: number;
  readonly glob: Glob;
  /** Matches a name in any folder, not a path. */
  readonly anywhere: boolean;
  /** Matches the last name of every path that the rule matches; undefined where that is unknown. */
  readonly last: Glob | undefined;
}

/** The rules that match a single name. */
interface NameVerdict {
  readonly bits: number;
  readonly forms: readonly string[];
  /** The path rules that may match a path with this last name. */
  readonly paths: readonly PathRule[];
  /** The names that it may be a copy of. */
  readonly originals: readonly Omit<NameVerdict, 'originals'>[];
}

const maxRemembered = 10_000;

/**
 * Decides by names alone, from the top folder down: a rule for a folder holds for all its entries, until a rule further
 * in opens them.
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
    const verdict = { ...judgeName(name), originals: findOriginalNames(foldName(name)).map(judgeName) };
    if (remembered.size >= maxRemembered) remembered.clear();
    remembered.set(name, verdict);
    return verdict;
  }

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
    refusal(access, names) {
      const verdict = judgePath(names);
      if (verdict & (HIDDEN | SECRET)) return 'is hidden from sessions';
      return verdict & KEPT && access === 'write' ? readOnlyReason : undefined;
    },
    isOpened: (names) => (judgePath(names) & OPEN) !== 0,
  };
}

/** Only unusual names have more than one spelling. */
const maxPaths = 16;

/** Returns the protection of a copy by the names of its originals. Those names cannot open it. */
function findProtection(
  { bits: own, forms, paths }: Omit<NameVerdict, 'originals'>,
  above: readonly (readonly string[])[],
): number {
  const ways = paths.length === 0 ? [] : above.flatMap((way) => forms.map((form) => [...way, form])).slice(0, maxPaths);
  const bits = own | (paths.length === 0 ? 0 : matchRules(paths, ways));
  return bits & (bits & SHOWN ? HIDDEN | KEPT : HIDDEN | KEPT | SECRET);
}

/** A rule that opens must match the plain spelling: an unusual one can only protect. */
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

/** Lists the folded name, and its forms without trailing dots and spaces or without all after a colon. */
function listSpellings(name: string): readonly string[] {
  const plain = foldName(name);
  const bare = (text: string) => text.replace(/(?<![. ])[. ]+$/, '');
  const forms = new Set([plain, bare(plain), bare(plain.split(':')[0] as string)]);
  forms.delete('');
  return forms.size === 0 ? [plain] : [...forms];
}
