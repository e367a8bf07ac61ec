import { type ASTNode, Environment } from '@marcbachmann/cel-js';
import { isUnder, matchesPattern, patternProblem, renewBudget } from './condition-functions.ts';
import { type Reading, readingOf } from './condition-reading.ts';
import type { Arguments, CallFacts } from './decision.ts';

/** `error` is why it cannot be said; whoever asks takes that for a denial. */
export type Verdict = { readonly holds: boolean } | { readonly error: string };

export interface Condition extends Reading {
  readonly text: string;
  judge(call: CallFacts, args: Arguments | undefined): Verdict;
}

const longest = 4096;
const mostKnown = 20_000;
/** Values times values times length of the text: what loops over hostile arguments may cost. */
const mostWork = 50_000_000;

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

const known = new Map<string, Condition>();
const noArguments: ReadonlyMap<string, unknown> = new Map();

export function compileCondition(text: string): Condition | { readonly problem: string } {
  const before = known.get(text);
  if (before !== undefined) return before;
  if (text.length > longest) return { problem: `a condition has at most ${longest} characters` };
  try {
    const program = environment.parse(text);
    const reading = readingOf(program.ast as ASTNode, patternProblem);
    if ('problem' in reading) return reading;
    const { valid, type, error } = program.check();
    if (!valid) return { problem: firstLine(error) };
    if (type !== 'bool' && type !== 'dyn') return { problem: `a condition is true or false; this is a ${type}` };
    const condition = { ...reading, text, judge: judgeOf(program, reading) };
    // Many reloads must not add up; a condition in use is held by its rule.
    if (known.size >= mostKnown) known.clear();
    known.set(text, condition);
    return condition;
  } catch (error) {
    return { problem: firstLine(error) };
  }
}

function judgeOf(program: (context: Record<string, unknown>) => unknown, reading: Reading): Condition['judge'] {
  return (call, args) => {
    if (reading.readsArgs) {
      if (args === undefined) return { error: 'the arguments are not known' };
      if (args.kind === 'unsafe') return { error: `the arguments cannot be judged: ${args.reason}` };
      const work = reading.loops.times * args.values ** reading.loops.nested * Math.max(args.length, 1);
      if (reading.loops.nested > 0 && work > mostWork) return { error: 'the arguments are too large to be judged' };
    }
    renewBudget();
    try {
      const { session, server, tool } = call;
      const value = program({ session, server, tool, args: args?.kind === 'read' ? args.value : noArguments });
      return typeof value === 'boolean' ? { holds: value } : { error: 'it is neither true nor false' };
    } catch (error) {
      return { error: firstLine(error) };
    }
  };
}

/** The engine shows the place below its words; and it may repeat what was sent. */
function firstLine(error: unknown): string {
  const [line = 'it failed'] = String((error as Error | undefined)?.message ?? error).split('\n');
  return line.length > 160 ? `${line.slice(0, 159)}…` : line;
}
