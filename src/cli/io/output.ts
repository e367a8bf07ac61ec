import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { Invocation } from '../command.ts';

/** Data on stdout: as JSON when asked for, else as the command shows it to people. */
export function printData(invocation: Invocation, data: unknown, show: () => string): void {
  process.stdout.write(invocation.flags.json === true ? `${JSON.stringify(data)}\n` : `${show()}\n`);
}

/** What a terminal shows without breaking lines, where nobody knows better. */
export const defaultColumns = 80;

const gap = 2;
/** Below this a cell says nothing any more. */
const minCellWidth = 9;

export interface TableOptions {
  /** Columns that are typed again: the others get narrow before them. */
  readonly keepWidth?: readonly string[];
  /** Columns whose end says more than their beginning, such as paths. */
  readonly truncateStart?: readonly string[];
}

/**
 * Columns as wide as their longest cell, where the terminal has room for that; else the widest are cut. Those that are
 * empty are left out. Whatever came from outside is escaped.
 */
export function renderTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { keepWidth = [], truncateStart = [] }: TableOptions = {},
): string {
  const used = head.flatMap((_, column) => (rows.some((row) => (row[column] ?? '') !== '') ? [column] : []));
  const names = used.map((column) => head[column] as string);
  const cells = [names, ...rows.map((row) => used.map((column) => escapeControls(row[column] ?? '')))];
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const keepsWidth = names.map((name) => keepWidth.includes(name));
  shrinkColumns(widths, keepsWidth, (process.stdout.isTTY && process.stdout.columns) || defaultColumns);
  return cells
    .map((row) =>
      row
        .map((cell, i) => {
          const width = widths[i] as number;
          return (
            truncateStart.includes(names[i] as string) ? shortenStart(cell, width) : shortenEnd(cell, width)
          ).padEnd(width);
        })
        .join(' '.repeat(gap))
        .trimEnd(),
    )
    .join('\n');
}

/** Takes from the widest until all fit, or none can give any more. */
function shrinkColumns(widths: number[], keepsWidth: readonly boolean[], room: number): void {
  for (const sparing of [true, false]) {
    for (;;) {
      const surplus = widths.reduce((sum, width) => sum + width + gap, -gap) - room;
      const giving = widths.map((width, i) => (sparing && keepsWidth[i] ? 0 : width));
      const widest = giving.indexOf(Math.max(...giving));
      if (surplus <= 0 || (giving[widest] ?? 0) <= minCellWidth) break;
      (widths[widest] as number)--;
    }
  }
}

/** A value of several words goes on below itself; a single one is left whole, to be copied. */
export function renderPairs(pairs: readonly (readonly [string, string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length)) + gap;
  return pairs
    .flatMap(([name, value]) => {
      const lines = value.includes(' ')
        ? wrapText(value, Math.max(defaultColumns - width, defaultColumns / 2))
        : [escapeControls(value)];
      return lines.map((line, i) => `${(i === 0 ? name : '').padEnd(width)}${line}`.trimEnd());
    })
    .join('\n');
}

export function shortenEnd(text: string, most: number): string {
  const plain = escapeControls(text);
  return plain.length > most ? `${plain.slice(0, most - 1).replace(surrogate, '')}…` : plain;
}

function shortenStart(plain: string, most: number): string {
  return plain.length > most ? `…${plain.slice(plain.length - most + 1).replace(surrogate, '')}` : plain;
}

/** Of a character that was cut through. */
const surrogate = /\p{Surrogate}/gu;

export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [''];
  for (const word of escapeControls(text).split(' ')) {
    const last = lines.length - 1;
    const longer = lines[last] === '' ? word : `${lines[last]} ${word}`;
    if (longer.length <= width) lines[last] = longer;
    else lines.push(...(word.match(new RegExp(`.{1,${width}}`, 'gu')) ?? []));
  }
  return lines.filter((line) => line !== '');
}

/** How long from now, in the unit a person would use. */
export function relativeTime(iso: string, now = Date.now()): string {
  return Date.parse(iso) < now ? `${renderDuration(iso, now)} ago` : `in ${renderDuration(iso, now)}`;
}

export function renderDuration(iso: string, now = Date.now()): string {
  const seconds = Math.abs(Math.round((Date.parse(iso) - now) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)}h` : `${Math.round(seconds / 86_400)}d`;
}
