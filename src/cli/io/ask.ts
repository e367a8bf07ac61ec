import { createInterface } from 'node:readline/promises';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Flag, type Invocation, UsageError } from '../command.ts';

export const yesFlag: Flag = { type: 'boolean', help: 'do it without asking' };

/** Asks the person at the terminal. Without a terminal, `--yes` is needed. */
export async function askConfirmation(invocation: Invocation, question: string): Promise<boolean> {
  if (invocation.flags['yes'] === true) return true;
  if (!isTerminal()) {
    throw new UsageError('there is no terminal to ask on; say --yes if you mean it');
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${escapeControls(question)} [y/N] `);
    return /^y(?:es)?$/i.test(answer.trim());
  } finally {
    terminal.close();
  }
}

export function isTerminal(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true;
}

/** Prints lines for the person to stderr, with control characters escaped. */
export function printLines(lines: readonly string[]): void {
  for (const line of lines) process.stderr.write(`${escapeControls(line)}\n`);
}
