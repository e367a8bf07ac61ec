import type { ContextProblem } from './context.ts';

/** How the steps of reading a context say no to one another; it never leaves this room. */
export class Refusal extends Error {
  readonly code: ContextProblem;

  constructor(code: ContextProblem, reason: string) {
    super(reason);
    this.code = code;
  }
}

/** A value from outside, short and on one line, for a sentence that people read. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 80 ? `${text.slice(0, 76)}…"` : text;
}
