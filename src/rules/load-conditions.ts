import type { Condition } from './condition.ts';

/** Compiles a condition, or says in words why it is none. */
export type CompileCondition = (text: string) => Condition | { readonly problem: string };

let engine: CompileCondition | undefined;

/** The engine costs a start some milliseconds: only a configuration that has conditions loads it. */
export async function loadConditions(): Promise<CompileCondition> {
  engine ??= (await import('./condition.ts')).compileCondition;
  return engine;
}

/** A condition that was found good when its configuration was loaded. */
export function requireCondition(text: string): Condition {
  const condition = engine?.(text) ?? { problem: 'it was not loaded' };
  if ('problem' in condition) throw new Error(`a condition that cannot be judged: ${condition.problem}`);
  return condition;
}
