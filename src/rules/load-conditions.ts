import type { Condition } from './condition.ts';

/** Compiles a condition, or returns the problem in words. */
type CompileCondition = (text: string) => Condition | { readonly problem: string };

let engine: CompileCondition | undefined;

/** Loads the condition engine. It costs some milliseconds, so only a configuration with conditions loads it. */
export async function loadConditions(): Promise<CompileCondition> {
  engine ??= (await import('./condition.ts')).compileCondition;
  return engine;
}

/** Returns a condition that was checked when its configuration was loaded. */
export function requireCondition(text: string): Condition {
  const condition = engine?.(text) ?? { problem: 'it was not loaded' };
  if ('problem' in condition) throw new Error(`a condition that cannot be evaluated: ${condition.problem}`);
  return condition;
}
