import { createInterface } from 'node:readline/promises';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type Flag, type Invocation, UsageError } from '../command.ts';
import { clearProgress } from './progress.ts';

export const yesFlag: Flag = { type: 'boolean', help: 'Do not ask for confirmation' };

/** Asks the person at the terminal. Without a terminal, `--yes` is needed. */
export async function askConfirmation(invocation: Invocation, question: string): Promise<boolean> {
  if (invocation.flags['yes'] === true) return true;
  if (!isTerminal()) {
    throw new UsageError('confirmation is needed, and there is no terminal to ask on', 'Add --yes to confirm.');
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
  clearProgress();
  for (const line of lines) process.stderr.write(`${escapeControls(line)}\n`);
}
