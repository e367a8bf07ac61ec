import type { ASTNode } from '@marcbachmann/cel-js';

/** What a condition reads, as far as its text tells. */
export interface Reading {
  readonly readsArgs: boolean;
  /** Of `session.userId`, `server`, `tool`, `args.path`: those it mentions. */
  readonly claims: readonly string[];
  /** Every name it looks for in the arguments. */
  readonly names: ReadonlySet<string>;
  /** How often its innermost part may run: so many times, times the number of values for each nested loop. */
  readonly loops: { readonly nested: number; readonly times: number };
}

/** What can be called. All else is refused: no clock, no bytes, and nothing that lets a text grow. */
const functions = new Set(
  'has size startsWith endsWith contains lowerAscii upperAscii trim indexOf lastIndexOf substring all exists exists_one filter int double string bool type dyn re glob under'.split(
    ' ',
  ),
);
const loopNames = new Set(['all', 'exists', 'exists_one', 'filter']);
const mostNested = 2;
/** A session has at most as many permissions. */
const mostOfSession = 100;

type PatternProblem = (kind: 're' | 'glob', pattern: string) => string | undefined;

export function readingOf(root: ASTNode, patternProblem: PatternProblem): Reading | { readonly problem: string } {
  const claims = new Set<string>();
  const names = new Set<string>();
  let problem: string | undefined;
  let nested = 0;
  let times = 1;

  function called(name: string, args: readonly ASTNode[]): void {
    if (name === 'matches') problem ??= 'matches() can hang; use re(text, pattern)';
    else if (!functions.has(name)) problem ??= `there is no function ${name}() in conditions`;
    if (name !== 're' && name !== 'glob') return;
    const pattern = args[1];
    if (pattern?.op === 'value' && typeof pattern.args === 'string') problem ??= patternProblem(name, pattern.args);
    else problem ??= `the pattern of ${name}() must be written in the rule itself`;
  }

  function walk(node: ASTNode, loops: { readonly nested: number; readonly times: number }): void {
    const path = pathOf(node);
    if (path !== undefined && /^(?:session|args)(?:\.|$)|^(?:server|tool)$/.test(path)) claims.add(path);
    if ((node.op === '.' || node.op === '.?') && !path?.startsWith('session.')) names.add(node.args[1]);
    if (node.op === '[]' || node.op === '[?]') addLiteral(node.args[1]);
    if (node.op === 'in') addLiteral(node.args[0]);
    if (node.op === 'call') called(node.args[0], node.args[1]);
    if (node.op === 'rcall') {
      const [name, receiver, args] = node.args;
      called(name, args);
      let inside = loops;
      if (loopNames.has(name)) {
        inside = withLoop(loops, receiver);
        nested = Math.max(nested, inside.nested);
        times = Math.max(times, inside.times);
        if (inside.nested > mostNested) problem ??= `loops over arguments nest at most ${mostNested} deep`;
      }
      walk(receiver, loops);
      for (const child of args) walk(child, inside);
      return;
    }
    for (const child of childrenOf(node.args)) walk(child, loops);
  }

  function addLiteral(node: ASTNode): void {
    if (node.op === 'value' && typeof node.args === 'string') names.add(node.args);
  }

  walk(root, { nested: 0, times: 1 });
  if (problem !== undefined) return { problem };
  // Of `session.userId` and `session`, the longer one says more.
  const said = [...claims].filter((claim) => ![...claims].some((other) => other.startsWith(`${claim}.`)));
  return {
    readsArgs: [...claims].some((claim) => claim === 'args' || claim.startsWith('args.')),
    claims: said.sort(),
    names,
    loops: { nested, times },
  };
}

function withLoop(loops: { readonly nested: number; readonly times: number }, over: ASTNode): typeof loops {
  if (over.op === 'list') return { ...loops, times: loops.times * Math.max(over.args.length, 1) };
  if (pathOf(over) === 'session.permissions') return { ...loops, times: loops.times * mostOfSession };
  return { ...loops, nested: loops.nested + 1 };
}

/** `session.userId` and its like; undefined for whatever is no plain path. */
function pathOf(node: ASTNode): string | undefined {
  if (node.op === 'id') return node.args;
  if (node.op !== '.' && node.op !== '.?') return undefined;
  const base = pathOf(node.args[0]);
  return base === undefined ? undefined : `${base}.${node.args[1]}`;
}

function childrenOf(args: unknown): ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(childrenOf);
  return typeof args === 'object' && args !== null && 'op' in args ? [args as ASTNode] : [];
}
