import { styleText } from 'node:util';
import { escapeControls, toPlainLine } from '../../lib/text/escape-controls.ts';
import { replaceHidden } from '../../lib/text/hidden-characters.ts';
import type { Invocation } from '../command.ts';

/** Prints data to stdout: as JSON with `--json`, else as text for people. */
export function printData(invocation: Invocation, data: unknown, show: () => string): void {
  process.stdout.write(invocation.flags.json === true ? `${formatJson(data)}\n` : `${escapeForeignText(show())}\n`);
}

/** Formats a time for people, such as `2026-11-18 10:55:03` in the time zone of this machine. */
export function formatLocalTime(time: Date): string {
  const pad = (value: number) => String(value).padStart(2, '0');
  const day = [time.getFullYear(), pad(time.getMonth() + 1), pad(time.getDate())].join('-');
  return `${day} ${[time.getHours(), time.getMinutes(), time.getSeconds()].map(pad).join(':')}`;
}

/** Writes one line of a stream, as JSON with `--json`, and waits until stdout can take more. */
export async function writeLine(invocation: Invocation, data: unknown, text: string): Promise<void> {
  const { stdout } = process;
  const hasRoom = stdout.write(`${invocation.flags.json === true ? formatJson(data) : text}\n`);
  if (hasRoom || stdout.destroyed || stdout.errored) return;
  await new Promise<void>((resolve) => {
    const resume = () => {
      for (const event of ['drain', 'error', 'close']) stdout.off(event, resume);
      resolve();
    };
    for (const event of ['drain', 'error', 'close']) stdout.on(event, resume);
  });
}

/** Aborts when nobody reads stdout any more. */
export function watchReader(): AbortSignal {
  const gone = new AbortController();
  process.stdout.once('error', () => gone.abort());
  return gone.signal;
}

/** Formats a value as JSON in one line. Characters that a terminal obeys or hides are escaped; the value is the same. */
export function formatJson(value: unknown): string {
  return replaceHidden(JSON.stringify(value), (character) =>
    // One character may be two units.
    Array.from({ length: character.length }, (_, i) => character.charCodeAt(i))
      .map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`)
      .join(''),
  );
}

/** Line ends, and the styles of `paintText`. */
const ownParts = /(\n|\u001b\[(?:[12]|22|3[1236]|39)m)/;

/** Escapes control characters in finished text. Its lines and styles stay. */
export function escapeForeignText(text: string): string {
  return text
    .split(ownParts)
    .map((part, i) => (i % 2 === 1 ? part : escapeControls(part)))
    .join('');
}

/** The assumed width of a terminal that does not tell its own. */
export const defaultColumns = 80;

/** Narrower text would be unreadable. */
const minTextColumns = 40;

/** The width of running text: 80 columns, or those of a narrower terminal. */
export function findTextWidth(): number {
  const columns = (process.stdout.isTTY && process.stdout.columns) || defaultColumns;
  return Math.max(minTextColumns, Math.min(columns, defaultColumns));
}

const gap = 2;
/** A narrower cell would be useless. */
const minCellWidth = 9;

export interface TableOptions {
  /** Columns that people copy: the others are narrowed before them. */
  readonly keepWidth?: readonly string[];
  /** Columns whose end matters more than their start, such as paths. */
  readonly truncateStart?: readonly string[];
  /** Columns whose words name a state, such as `ok`; they are coloured. */
  readonly states?: readonly string[];
}

/**
 * Renders columns as wide as their longest cell. Where the terminal is narrower, the widest are truncated. Empty
 * columns are left out, and control characters are escaped.
 */
export function renderTable(
  head: readonly string[],
  rows: readonly (readonly string[])[],
  { keepWidth = [], truncateStart = [], states = [] }: TableOptions = {},
): string {
  const used = head.flatMap((_, column) => (rows.some((row) => (row[column] ?? '') !== '') ? [column] : []));
  const names = used.map((column) => head[column] as string);
  const cells = [names, ...rows.map((row) => used.map((column) => escapeControls(row[column] ?? '')))];
  const widths = names.map((_, column) => Math.max(...cells.map((row) => row[column]?.length ?? 0)));
  const keepsWidth = names.map((name) => keepWidth.includes(name));
  shrinkColumns(widths, keepsWidth, (process.stdout.isTTY && process.stdout.columns) || defaultColumns);
  return cells
    .map((row, at) =>
      row
        .map((cell, i) => {
          const [name, width] = [names[i] as string, widths[i] as number];
          const short = truncateStart.includes(name) ? shortenStart(cell, width) : shortenEnd(cell, width);
          // The last cell needs no padding. Colours come last: they take no room.
          const padded = i === row.length - 1 ? short : short.padEnd(width);
          return at === 0 ? paintText('bold', padded) : states.includes(name) ? paintState(padded) : padded;
        })
        .join(' '.repeat(gap))
        .trimEnd(),
    )
    .join('\n');
}

/** Narrows the widest columns until all fit or none can be narrower. */
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

/** Renders names and values. A value of several words is wrapped; a single word is left whole, to be copied. */
export function renderPairs(pairs: readonly (readonly [string, string])[]): string {
  const width = Math.max(...pairs.map(([name]) => name.length)) + gap;
  const room = findTextWidth();
  return pairs
    .flatMap(([name, value]) => {
      const lines = value.includes(' ') ? wrapText(value, Math.max(room - width, room / 2)) : [escapeControls(value)];
      return lines.map((line, i) => `${paintText('bold', (i === 0 ? name : '').padEnd(width))}${line}`.trimEnd());
    })
    .join('\n');
}

export function shortenEnd(text: string, maxLength: number): string {
  const plain = escapeControls(text);
  return plain.length > maxLength ? `${plain.slice(0, maxLength - 1).replace(surrogate, '')}…` : plain;
}

function shortenStart(plain: string, maxLength: number): string {
  return plain.length > maxLength ? `…${plain.slice(plain.length - maxLength + 1).replace(surrogate, '')}` : plain;
}

/** Half of a character that was cut through. */
const surrogate = /\p{Surrogate}/gu;

export function wrapText(text: string, width: number): string[] {
  const lines: string[] = [''];
  const room = Math.max(width, minCellWidth);
  for (const word of escapeControls(text).split(' ')) {
    const last = lines.length - 1;
    const longer = lines[last] === '' ? word : `${lines[last]} ${word}`;
    if (longer.length <= room) lines[last] = longer;
    else lines.push(...(word.match(new RegExp(`.{1,${room}}`, 'gu')) ?? []));
  }
  return lines.filter((line) => line !== '');
}

/** The time from now in one unit, such as "in 3h" or "5m ago". */
export function relativeTime(iso: string, now = Date.now()): string {
  return Date.parse(iso) < now ? `${renderDuration(iso, now)} ago` : `in ${renderDuration(iso, now)}`;
}

export function renderDuration(iso: string, now = Date.now()): string {
  const seconds = Math.abs(Math.round((Date.parse(iso) - now) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)}m`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)}h` : `${Math.round(seconds / 86_400)}d`;
}

/** The last error of a server with its age, without the name of the server, which stands beside it. */
export function describeLastError(
  server: string,
  lastError: { readonly at: string; readonly message: string } | null,
): string {
  if (lastError === null) return '-';
  return `${relativeTime(lastError.at)}: ${lastError.message.replace(`The server "${server}" `, '')}`;
}

export type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan';

interface Output {
  readonly isTTY?: boolean;
}

/** Styles of words that name a state. A word that is not listed stays plain. */
const stateStyles: ReadonlyMap<string, Style> = new Map([
  ...['ok', 'yes', 'active', 'approved', 'running', 'ready', 'taken'].map((word) => [word, 'green'] as const),
  ...['weak', 'direct', 'changed', 'unapproved', 'starting', 'kept'].map((word) => [word, 'yellow'] as const),
  ...['missing', 'no', 'exposed', 'revoked', 'expired', 'failed', 'conflict'].map((word) => [word, 'red'] as const),
]);

/**
 * Styles a line for a terminal and escapes its control characters. The text stays plain where the output is no terminal,
 * with `NO_COLOR`, and with `TERM=dumb`.
 */
export function paintText(style: Style, text: string, output: Output = process.stdout): string {
  const plain = escapeControls(text);
  const { NO_COLOR, TERM } = process.env;
  if (output.isTTY !== true || NO_COLOR || TERM === 'dumb' || plain === '') return plain;
  // Node checks the stream itself otherwise, and differently from version to version.
  return styleText(style, plain, { validateStream: false });
}

/** Styles a word that names a state, such as `ok` or `missing`. Padding around the word is kept. */
export function paintState(word: string, output: Output = process.stdout): string {
  const style = stateStyles.get(word.trim());
  return style === undefined ? escapeControls(word) : paintText(style, word, output);
}

interface ChangedMember {
  readonly part: string;
  readonly diff: string;
  readonly note: string | null;
}

/** Renders what changed in a member of a tool. Its lines are text of the server. */
export function renderToolPart({ part, diff, note }: ChangedMember): string[] {
  const lines = diff.split('\n').filter((line) => line !== '' && !line.startsWith('@@'));
  return [
    `    ${toPlainLine(part)}:`,
    ...(note === null ? [] : [`      (${note})`]),
    ...lines.map((line) => `      ${escapeControls(line)}`),
  ];
}

/** Renders the changes of those tools that have any, to be put below their table. */
export function renderChangedTools(
  tools: readonly { readonly name: string; readonly state: string; readonly parts: readonly ChangedMember[] }[],
): string {
  return tools
    .filter(({ parts }) => parts.length > 0)
    .flatMap(({ name, state, parts }) => ['', `${toPlainLine(name)} (${state}):`, ...parts.flatMap(renderToolPart)])
    .map((line) => `\n${line}`)
    .join('');
}
