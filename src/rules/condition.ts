import { type ASTNode, Environment } from '@marcbachmann/cel-js';
import { RE2JS } from 're2js';
import type { RuleArguments } from '../protocol/rule-arguments.ts';
import type { RuleInput } from './decision.ts';
import { maxPermissions } from './session-base.ts';

/** The inputs of a condition, found in its text. */
interface ConditionReads {
  readonly readsArgs: boolean;
  /** The claims it mentions: `session.userId`, `server`, `tool`, `args.path`. */
  readonly claims: readonly string[];
  /** Every name it looks up in the arguments. */
  readonly names: ReadonlySet<string>;
  /** Bound of the runs of its innermost part: `times`, multiplied by the values of each nested loop. */
  readonly loops: { readonly nested: number; readonly times: number };
}

/** `error` says why it could not be evaluated; callers treat that as a denial. */
export type ConditionResult = { readonly holds: boolean } | { readonly error: string };

export interface Condition extends ConditionReads {
  readonly text: string;
  judge(call: RuleInput, args: RuleArguments | undefined): ConditionResult;
}

const maxTextLength = 4096;
const maxCachedConditions = 20_000;
/** Limit of values times values times length of the text: the cost of loops over hostile arguments. */
const maxLoopWork = 50_000_000;

const environment = new Environment({
  limits: { maxAstNodes: 1000, maxDepth: 50, maxListElements: 500, maxMapEntries: 100, maxCallArguments: 8 },
})
  .registerVariable({
    name: 'session',
    schema: {
      id: 'string',
      userId: 'string',
      agentId: 'string',
      workspaceId: 'string',
      trustLevel: 'string',
      permissions: 'list<string>',
    },
  })
  .registerVariable('server', 'string')
  .registerVariable('tool', 'string')
  .registerVariable('args', 'map<string, dyn>')
  .registerFunction('re(string, string): bool', (text: string, pattern: string) => matchesPattern('re', text, pattern))
  .registerFunction('glob(string, string): bool', (text: string, pattern: string) =>
    matchesPattern('glob', text, pattern),
  )
  .registerFunction('under(string, string): bool', isUnder);

const conditionCache = new Map<string, Condition>();
const noArguments: ReadonlyMap<string, unknown> = new Map();

export function compileCondition(text: string): Condition | { readonly problem: string } {
  const before = conditionCache.get(text);
  if (before !== undefined) return before;
  if (text.length > maxTextLength) return { problem: `a condition must have at most ${maxTextLength} characters` };
  try {
    const program = environment.parse(text);
    const reading = analyzeCondition(program.ast as ASTNode);
    if ('problem' in reading) return reading;
    const { valid, type, error } = program.check();
    if (!valid) return { problem: readFirstLine(error) };
    if (type !== 'bool' && type !== 'dyn') return { problem: `a condition must be true or false; this is a ${type}` };
    const condition = { ...reading, text, judge: createJudge(program, reading) };
    // Reloads must not accumulate conditions; a condition in use is held by its rule.
    if (conditionCache.size >= maxCachedConditions) conditionCache.clear();
    conditionCache.set(text, condition);
    return condition;
  } catch (error) {
    return { problem: readFirstLine(error) };
  }
}

function createJudge(
  program: (context: Record<string, unknown>) => unknown,
  reading: ConditionReads,
): Condition['judge'] {
  return (call, args) => {
    if (reading.readsArgs) {
      if (args === undefined) return { error: 'the arguments are not known' };
      if (args.kind === 'unsafe') return { error: `the arguments cannot be evaluated: ${args.reason}` };
      const work = reading.loops.times * args.values ** reading.loops.nested * Math.max(args.length, 1);
      if (reading.loops.nested > 0 && work > maxLoopWork)
        return { error: 'the arguments are too large to be evaluated' };
    }
    resetMatchBudget();
    try {
      const { session, server, tool } = call;
      const value = program({ session, server, tool, args: args?.kind === 'read' ? args.value : noArguments });
      return typeof value === 'boolean' ? { holds: value } : { error: 'it is neither true nor false' };
    } catch (error) {
      return { error: readFirstLine(error) };
    }
  };
}

/** Returns the first line of an error. The engine adds the position below it, and may repeat the input. */
function readFirstLine(error: unknown): string {
  const [line = 'it failed'] = String((error as Error | undefined)?.message ?? error).split('\n');
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}

/** Limit of matching steps in one evaluation, for any text. */
const maxMatchSteps = 4_000_000;
const maxProgramSize = 2000;
const compiledPatterns = new Map<string, RE2JS>();
let matchSteps = 0;

function resetMatchBudget(): void {
  matchSteps = 0;
}

/** Compiles the pattern of `re` or `glob` once and returns the problem in words; undefined if it is valid. */
function compilePattern(kind: 're' | 'glob', pattern: string): string | undefined {
  try {
    const program = RE2JS.compile(kind === 're' ? pattern : globToRegExpSource(pattern));
    if (program.programSize() > maxProgramSize) return `the pattern ${JSON.stringify(pattern)} is too large`;
    compiledPatterns.set(`${kind} ${pattern}`, program);
    return undefined;
  } catch (error) {
    const why = (error as Error).message.replace(/^error parsing regexp: /, '');
    return `the pattern ${JSON.stringify(pattern)} is not valid: ${why}`;
  }
}

/** Matches by RE2, which takes linear time for any pattern and text. */
function matchesPattern(kind: 're' | 'glob', text: string, pattern: string): boolean {
  const program = compiledPatterns.get(`${kind} ${pattern}`);
  if (program === undefined) throw new Error(`the pattern of ${kind}() must be written in the rule itself`);
  matchSteps += text.length * (program.programSize() + 20);
  if (matchSteps > maxMatchSteps) throw new Error(`the text is too long for ${kind}()`);
  return program.test(text);
}

/** Converts a glob of paths: `*` and `?` stop at "/", `**` does not. The whole text must match. */
function globToRegExpSource(pattern: string): string {
  const parts = pattern.match(/\*+|\?|[^*?]+/g) ?? [];
  const source = parts.map((part) => {
    if (part === '?') return '[^/]';
    if (part.startsWith('*')) return part.length === 1 ? '[^/]*' : '.*';
    return RE2JS.quote(part);
  });
  return `(?s)\\A${source.join('')}\\z`;
}

/** Whether a path is a folder or lies in it, by its text. Throws if the text does not tell: the rule then denies. */
function isUnder(path: string, root: string): boolean {
  const [inner, outer] = [parsePath(path), parsePath(root)];
  if (inner.absolute !== outer.absolute) throw new Error('one path is absolute and the other is not');
  return outer.names.every((name, index) => name === inner.names[index]);
}

function parsePath(path: string): { readonly absolute: boolean; readonly names: readonly string[] } {
  if (path === '' || /[\\\u0000]|^~/.test(path)) throw new Error('a path that cannot be checked by its text');
  const absolute = path.startsWith('/');
  const names: string[] = [];
  for (const name of path.split('/')) {
    if (name === '' || name === '.') continue;
    if (name !== '..') names.push(name);
    else if (names.pop() === undefined && !absolute) throw new Error('a path that leaves its starting folder');
  }
  return { absolute, names };
}

/** The functions that may be called. Others are refused: no clock, no bytes, and nothing that lets a text grow. */
const allowedFunctions = new Set(
  'has size startsWith endsWith contains lowerAscii upperAscii trim indexOf lastIndexOf substring all exists exists_one filter int double string bool type dyn re glob under'.split(
    ' ',
  ),
);
const loopNames = new Set(['all', 'exists', 'exists_one', 'filter']);
const maxNestedLoops = 2;

function analyzeCondition(root: ASTNode): ConditionReads | { readonly problem: string } {
  const claims = new Set<string>();
  const names = new Set<string>();
  let problem: string | undefined;
  let nested = 0;
  let times = 1;

  function checkCall(name: string, args: readonly ASTNode[]): void {
    if (name === 'matches') problem ??= 'matches() can hang; use re(text, pattern)';
    else if (!allowedFunctions.has(name)) problem ??= `unknown function ${name}()`;
    if (name !== 're' && name !== 'glob') return;
    const pattern = args[1];
    if (pattern?.op === 'value' && typeof pattern.args === 'string') problem ??= compilePattern(name, pattern.args);
    else problem ??= `the pattern of ${name}() must be written in the rule itself`;
  }

  function visitNode(node: ASTNode, loops: { readonly nested: number; readonly times: number }): void {
    const path = readPath(node);
    if (path !== undefined && /^(?:session|args)(?:\.|$)|^(?:server|tool)$/.test(path)) claims.add(path);
    if ((node.op === '.' || node.op === '.?') && !path?.startsWith('session.')) names.add(node.args[1]);
    if (node.op === '[]' || node.op === '[?]') addLiteral(node.args[1]);
    if (node.op === 'in') addLiteral(node.args[0]);
    if (node.op === 'call') checkCall(node.args[0], node.args[1]);
    if (node.op === 'rcall') {
      const [name, receiver, args] = node.args;
      checkCall(name, args);
      let inside = loops;
      if (loopNames.has(name)) {
        inside = addLoop(loops, receiver);
        nested = Math.max(nested, inside.nested);
        times = Math.max(times, inside.times);
        if (inside.nested > maxNestedLoops)
          problem ??= `loops over arguments may be nested at most ${maxNestedLoops} deep`;
      }
      visitNode(receiver, loops);
      for (const child of args) visitNode(child, inside);
      return;
    }
    for (const child of listChildNodes(node.args)) visitNode(child, loops);
  }

  function addLiteral(node: ASTNode): void {
    if (node.op === 'value' && typeof node.args === 'string') names.add(node.args);
  }

  visitNode(root, { nested: 0, times: 1 });
  if (problem !== undefined) return { problem };
  // Of `session.userId` and `session`, the longer one is more precise.
  const preciseClaims = [...claims].filter((claim) => ![...claims].some((other) => other.startsWith(`${claim}.`)));
  return {
    readsArgs: [...claims].some((claim) => claim === 'args' || claim.startsWith('args.')),
    claims: preciseClaims.sort(),
    names,
    loops: { nested, times },
  };
}

function addLoop(loops: { readonly nested: number; readonly times: number }, over: ASTNode): typeof loops {
  if (over.op === 'list') return { ...loops, times: loops.times * Math.max(over.args.length, 1) };
  if (readPath(over) === 'session.permissions') return { ...loops, times: loops.times * maxPermissions };
  return { ...loops, nested: loops.nested + 1 };
}

/** Reads a plain path such as `session.userId`; undefined for any other expression. */
function readPath(node: ASTNode): string | undefined {
  if (node.op === 'id') return node.args;
  if (node.op !== '.' && node.op !== '.?') return undefined;
  const base = readPath(node.args[0]);
  return base === undefined ? undefined : `${base}.${node.args[1]}`;
}

function listChildNodes(args: unknown): ASTNode[] {
  if (Array.isArray(args)) return args.flatMap(listChildNodes);
  return typeof args === 'object' && args !== null && 'op' in args ? [args as ASTNode] : [];
}
