import { escapeControls } from '../escape-controls.ts';
import type { Invocation } from './command.ts';

/** Data on stdout: as JSON when asked for, else as the command shows it to people. */
export function print(invocation: Invocation, data: unknown, show: () => string): void {
  process.stdout.write(invocation.flags.json === true ? `${JSON.stringify(data)}\n` : `${show()}\n`);
}

/** Columns as wide as their longest cell; whatever came from outside is escaped. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const cells = [head, ...rows].map((row) => row.map(escapeControls));
  const widths = head.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  return cells
    .map((row) =>
      row
        .map((cell, i) => cell.padEnd(widths[i] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}

export function facts(pairs: readonly (readonly [string, string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length));
  return pairs.map(([name, value]) => `${name.padEnd(width)}  ${escapeControls(value)}`).join('\n');
}

/** What a terminal shows without breaking lines. */
export const columns = 80;

export function cut(text: string, most: number): string {
  const plain = escapeControls(text);
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

export function wrap(text: string, width: number): string[] {
  const lines: string[] = [''];
  for (const word of escapeControls(text).split(' ')) {
    const last = lines.length - 1;
    const longer = lines[last] === '' ? word : `${lines[last]} ${word}`;
    if (longer.length <= width) lines[last] = longer;
    else lines.push(...(word.match(new RegExp(`.{1,${width}}`, 'gu')) ?? []));
  }
  return lines.filter((line) => line !== '');
}
