import { logInstalls } from '../../gateway/observer.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { OnInstall } from '../../sandbox/packages/package-store.ts';
import { type Invocation, readFlag } from '../command.ts';
import { createLog } from './log-flags.ts';
import { clearProgress, formatSeconds, startProgress, type Terminal } from './progress.ts';

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
  let progress: ReturnType<typeof startProgress> | undefined;

  function describe(): string {
    const longest = Math.max(...[...startedAt.values()].map((began) => performance.now() - began));
    return `Installing ${[...startedAt.keys()].join(', ')} … ${formatSeconds(longest)}`;
  }

  return ({ package: name, state }) => {
    if (state === 'started') {
      startedAt.set(name, performance.now());
      progress ??= startProgress(terminal, describe);
    } else {
      const ms = performance.now() - (startedAt.get(name) ?? performance.now());
      startedAt.delete(name);
      if (startedAt.size === 0) {
        progress?.end();
        progress = undefined;
      } else clearProgress(terminal);
      if (state === 'installed') terminal.write(`Installed ${escapeControls(name)} in ${formatSeconds(ms)}\n`);
    }
    progress?.draw();
  };
}
