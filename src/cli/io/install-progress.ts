import type { Writable } from 'node:stream';
import { logInstalls } from '../../gateway/observer.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { OnInstall } from '../../sandbox/packages/package-store.ts';
import { type Invocation, readFlag } from '../command.ts';
import { createLog } from './log-flags.ts';
import { defaultColumns, shortenEnd } from './output.ts';

interface Terminal extends Writable {
  readonly columns?: number | undefined;
}

const redrawMs = 1000;
const clearLine = '\r\u001b[K';

/** Watches installations for a person: as a line on a terminal that is written again, else as entries of the log. */
export function watchInstalls(invocation: Invocation): OnInstall {
  const { env } = invocation;
  const format = readFlag(invocation, 'log-format') ?? env['AMBIT_LOG_FORMAT'];
  const isPlain = Boolean(env['NO_COLOR']) || env['TERM'] === 'dumb' || format === 'json';
  return process.stderr.isTTY && !isPlain ? drawInstalls(process.stderr) : logInstalls(createLog(invocation));
}

/** Draws one line for all installations under way, such as `Installing some-server … 12 s`. */
export function drawInstalls(terminal: Terminal): OnInstall {
  const startedAt = new Map<string, number>();
  let redrawing: NodeJS.Timeout | undefined;

  function draw(): void {
    const longest = Math.max(...[...startedAt.values()].map((began) => performance.now() - began));
    const text = `Installing ${[...startedAt.keys()].join(', ')} … ${formatSeconds(longest)}`;
    // The cursor goes back to the start, so that a line of the log replaces the text.
    terminal.write(`${clearLine}${shortenEnd(text, (terminal.columns || defaultColumns) - 1)}\r`);
  }

  return ({ package: name, state }) => {
    if (state === 'started') startedAt.set(name, performance.now());
    else {
      const ms = performance.now() - (startedAt.get(name) ?? performance.now());
      startedAt.delete(name);
      const end = state === 'installed' ? `Installed ${escapeControls(name)} in ${formatSeconds(ms)}\n` : '';
      terminal.write(`${clearLine}${end}`);
    }
    clearInterval(redrawing);
    if (startedAt.size === 0) return;
    draw();
    redrawing = setInterval(draw, redrawMs).unref();
  };
}

const formatSeconds = (ms: number): string => `${Math.round(ms / 1000)} s`;
