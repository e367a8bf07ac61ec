import type { Writable } from 'node:stream';
import { defaultColumns, shortenEnd } from './output.ts';

export interface Terminal extends Writable {
  readonly columns?: number | undefined;
  readonly isTTY?: boolean | undefined;
}

/** Text that one task shows at this moment; undefined while it shows nothing. */
type DescribeTask = () => string | undefined;

interface ProgressLine {
  readonly tasks: DescribeTask[];
  isDrawn: boolean;
}

const redrawMs = 1000;
const delayMs = 2000;
const clearLine = '\r\u001b[K';

/** The last line of each terminal. Tasks share it: the newest one with a text is shown. */
const progressLines = new WeakMap<Writable, ProgressLine>();

/** Shows one line such as `Checking notes … 3 s` while a task takes longer than two seconds. Needs a terminal. */
export async function showProgress<T>(
  label: string,
  task: Promise<T>,
  terminal: Terminal = process.stderr,
): Promise<T> {
  if (terminal.isTTY !== true || process.env['TERM'] === 'dumb') return task;
  const startedAt = performance.now();
  const progress = startProgress(terminal, () => {
    const ms = performance.now() - startedAt;
    // Timers may fire a moment early.
    return ms < delayMs - 50 ? undefined : `${label} … ${formatSeconds(ms)}`;
  });
  try {
    return await task;
  } finally {
    progress.end();
  }
}

/** Adds a task to the last line of a terminal, which is drawn again every second. */
export function startProgress(terminal: Terminal, describe: DescribeTask) {
  const line = progressLines.get(terminal) ?? { tasks: [], isDrawn: false };
  progressLines.set(terminal, line);
  line.tasks.push(describe);
  const timer = setInterval(() => drawProgress(terminal), redrawMs).unref();
  return {
    draw: () => drawProgress(terminal),
    end() {
      clearInterval(timer);
      line.tasks.splice(line.tasks.indexOf(describe), 1);
      clearProgress(terminal);
    },
  };
}

function drawProgress(terminal: Terminal): void {
  const line = progressLines.get(terminal);
  const texts = line?.tasks.map((describe) => describe()) ?? [];
  const text = texts.findLast((each) => each !== undefined);
  if (line === undefined || text === undefined) return;
  line.isDrawn = true;
  // The cursor goes back to the start, so that a line of the log replaces the text.
  terminal.write(`${clearLine}${shortenEnd(text, (terminal.columns || defaultColumns) - 1)}\r`);
}

/** Clears the line before other text is written to the terminal. */
export function clearProgress(terminal: Writable = process.stderr): void {
  const line = progressLines.get(terminal);
  if (line?.isDrawn !== true) return;
  line.isDrawn = false;
  terminal.write(clearLine);
}

export const formatSeconds = (ms: number): string => `${Math.round(ms / 1000)} s`;
