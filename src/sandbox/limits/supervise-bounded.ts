import type { StartedChild } from '../processes/spawn-watched.ts';
import { supervise } from '../processes/supervise.ts';
import type { Watchdog } from '../processes/watchdog.ts';
import type { EndTiming, Exit, RunningProcess } from '../runner.ts';
import type { Refusals } from './cgroup-settings.ts';
import type { Bounds } from './limiter.ts';
import type { Limits } from './limits.ts';
import { tooOld, whyItLeft } from './over-limit.ts';

export interface Bounded {
  readonly bounds: Bounds;
  readonly limits: Limits;
  readonly watchdog: Watchdog;
  readonly timing: EndTiming;
  readonly onGone: () => void;
}

/** As `supervise`, for a process that is ended when it takes more than it may; its exit then says why. */
export function superviseBounded(child: StartedChild, bounded: Bounded): RunningProcess {
  const { bounds, limits, watchdog, timing } = bounded;
  let reason: string | undefined;
  let refused: Refusals | undefined;
  // First of all who hear of it, before anybody clears up what the kernel has counted.
  child.once('exit', () => {
    refused = bounds.refusals();
  });
  const running = supervise(child, timing, bounded.onGone);
  const stopFor = (why: string) => {
    reason = why;
    // With bwrap goes the first process inside, and with that one all others.
    child.kill('SIGKILL');
  };
  const stopWatching = watchdog.watch({
    check: (processes) => bounds.check(child.pid, processes),
    onOver: stopFor,
  });
  const oldAge = setTimeout(() => stopFor(tooOld(limits)), limits.wallSeconds * 1000).unref();
  const explained = (exit: Exit): Exit => {
    const why = reason ?? whyItLeft(exit, refused, limits);
    return why === undefined ? exit : { ...exit, reason: why };
  };
  const exited = running.exited.then((exit) => {
    stopWatching();
    clearTimeout(oldAge);
    return explained(exit);
  });
  return { ...running, exited, end: () => running.end().then(explained) };
}
