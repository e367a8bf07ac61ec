import { setTimeout as delay } from 'node:timers/promises';
import { type AmbitError, isAmbitError } from '../../../errors.ts';
import type { Channel } from '../../../protocol/channel.ts';
import { EraError } from '../../../protocol/protocol-error.ts';
import type { Exit } from '../../../sandbox/runner.ts';
import type { StdioServer } from '../../definition.ts';
import { failCall, type PendingCalls } from '../relay/pending-calls.ts';
import type { Binding } from '../relay/towards-upstream.ts';
import { exitError, readStderrLines, startTimeoutError } from '../upstream-errors.ts';
import type { Opening } from './opening.ts';
import type { OwnRequests } from './own-requests.ts';
import {
  type ProcessListener,
  type ProcessOptions,
  type ProcessWatch,
  type ServerProcess,
  startServer,
} from './server-process.ts';

interface LinkProcessOptions extends Pick<ProcessListener, 'onLine' | 'onTooLong'> {
  readonly server: StdioServer;
  readonly processOptions: ProcessOptions;
  readonly opening: Opening;
  readonly binding: Binding;
  readonly pending: PendingCalls;
  readonly ownRequests: OwnRequests;
  readonly startMs: number;
  /** The time since which no call needs the process; undefined while one does. */
  idleSince(): number | undefined;
  hasClients(): boolean;
  onStart(): void;
  onExit(): void;
}

/** The process of a stdio link: started on first need, once, however many calls wait, and again after it has ended. */
export interface LinkProcess {
  /** The process that takes calls now; undefined while there is none. */
  running(): ServerProcess | undefined;
  ready(): Promise<ServerProcess>;
  /** Ends the process; the next call starts another. */
  stop(): void;
  /** The process has answered: the delay of its restarts is reset. */
  succeeded(): void;
  /** The reason of `close`; undefined until then. */
  closedFor(): AmbitError | undefined;
  close(reason: AmbitError): Promise<void>;
}

/** A process that ends this soon after its start counts as a failed start. */
const earlyExitMs = 10_000;
const firstBackoffMs = 100;
const maxBackoffMs = 10_000;

export function createLinkProcess(options: LinkProcessOptions): LinkProcess {
  const { server, processOptions, opening, binding, pending, ownRequests } = options;
  const backoff = createBackoff();
  let current: ServerProcess | undefined;
  let running: ServerProcess | undefined;
  let starting: Promise<ServerProcess> | undefined;
  let leaving: Promise<void> | undefined;
  let closing: AmbitError | undefined;
  let abandon: (reason: AmbitError) => void = () => {};
  const abandoned = new Promise<never>((_, reject) => {
    abandon = reject;
  });
  abandoned.catch(() => {});
  /** True when the last process ended by itself. */
  let wasLost = false;
  /** The last process that took calls. */
  let opened: ServerProcess | undefined;
  /** The last process that Ambit ended before it took calls. */
  let rejected: ServerProcess | undefined;
  /** True when the current process has written a message: it works, or did. */
  let hasSpoken = false;

  function ready(): Promise<ServerProcess> {
    if (running !== undefined) return Promise.resolve(running);
    starting ??= reportStartFailure(start(), processOptions.watch).finally(() => {
      starting = undefined;
    });
    return starting;
  }

  async function start(): Promise<ServerProcess> {
    opening.assertPossible();
    await leaving;
    await backoff.wait();
    if (closing !== undefined) throw closing;
    let fresh: ServerProcess | undefined;
    options.onStart();
    hasSpoken = false;
    const began = performance.now();
    fresh = await startServer(server, processOptions, {
      onLine: (line) => noteMessage(fresh, options.onLine(line)),
      onTooLong: options.onTooLong,
      onSilence: () => onOutputEnd(fresh),
      onExit: (exit) => onExit(fresh, exit),
      abandoned,
      stoppable: {
        idleSince: () => (fresh !== undefined && fresh === running ? options.idleSince() : undefined),
        hasClients: options.hasClients,
        end: stop,
      },
    });
    current = fresh;
    if (closing !== undefined) {
      await fresh.end();
      throw closing;
    }
    try {
      const write = (bytes: Buffer) => fresh?.write(bytes);
      const { contextKey } = fresh;
      const ask = (method: string, given: string) => {
        const { params } = binding.attacher.attachToParams(method, given, contextKey);
        return ownRequests.sendRequest(method, params, write, options.startMs);
      };
      await opening.perform(ask, write);
      processOptions.mayServe();
    } catch (error) {
      rejected = fresh;
      await fresh.end();
      throw isTimeout(error) ? startTimeoutError(server.name, options.startMs, fresh.output()) : error;
    }
    running = fresh;
    opened = fresh;
    processOptions.watch.ready(fresh.pid, performance.now() - began, wasLost);
    wasLost = false;
    return fresh;
  }

  function noteMessage(from: ServerProcess | undefined, isMessage: boolean): boolean {
    if (isMessage && !hasSpoken && from === current) {
      hasSpoken = true;
      processOptions.watch.spoke();
    }
    return isMessage;
  }

  function stop(): void {
    const idle = running;
    running = undefined;
    current = undefined;
    void idle?.end();
  }

  /** Ends a process whose output has ended: it can answer nothing any more. */
  function onOutputEnd(ended: ServerProcess | undefined): void {
    if (ended === undefined || ended !== current) return;
    running = undefined;
    leaving = ended.end().finally(() => {
      leaving = undefined;
    });
  }

  function onExit(ended: ServerProcess | undefined, exit: Exit): void {
    if (ended !== current) return;
    current = undefined;
    running = undefined;
    const output = ended?.output() ?? { lines: [], quote: undefined };
    const failure = closing ?? exitError(server.name, exit, output);
    const waiting = pending.drain();
    if (closing === undefined && ended !== rejected) {
      wasLost = true;
      if (ended === opened) reportExit(ended?.pid, exit, failure, waiting.length > 0);
    }
    options.onExit();
    ownRequests.fail(failure);
    if (waiting.length > 0 || ended === undefined || Date.now() - ended.startedAt < earlyExitMs) backoff.failed();
    for (const call of waiting) failCall(call, failure);
  }

  /**
   * Reports a process that took calls and ended by itself. One that never wrote a message has not started. One that leaves
   * with code 0 while nobody waits for it does so by its own design.
   */
  function reportExit(pid: number | undefined, exit: Exit, failure: AmbitError, isMissed: boolean): void {
    if (exit.code === 0 && exit.reason === undefined && !isMissed) return;
    if (hasSpoken) processOptions.watch.lost(pid, exit, readStderrLines(failure));
    else processOptions.watch.failed(failure);
  }

  return {
    running: () => running,
    ready,
    stop,
    succeeded: backoff.succeeded,
    closedFor: () => closing,
    async close(reason) {
      closing ??= reason;
      abandon(closing);
      for (const call of pending.drain()) failCall(call, closing);
      ownRequests.fail(closing);
      const last = running ?? (await starting?.catch(() => undefined));
      running = undefined;
      await Promise.all([last?.end(), leaving]);
    },
  };
}

function isTimeout(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'UPSTREAM_TIMEOUT';
}

/** Reports a failed start. A refusal, an ended session or another era is no failure of the server. */
function reportStartFailure<Started>(start: Promise<Started>, watch: ProcessWatch): Promise<Started> {
  return start.catch((error: unknown) => {
    const isRefusal = isAmbitError(error) && !/^(?:UPSTREAM_|SANDBOX_UNAVAILABLE$)/.test(error.code);
    if (!isRefusal && !(error instanceof EraError)) watch.failed(error);
    throw error;
  });
}

/** Delays the restarts of a server that keeps crashing. One good answer resets the delay. */
function createBackoff(): { wait(): Promise<void>; failed(): void; succeeded(): void } {
  let failures = 0;
  let notBefore = 0;
  return {
    async wait() {
      const ms = notBefore - Date.now();
      if (ms > 0) await delay(ms);
    },
    failed() {
      failures++;
      // The first crash has no delay: most servers come back at once.
      notBefore = failures < 2 ? 0 : Date.now() + Math.min(maxBackoffMs, firstBackoffMs * 2 ** (failures - 2));
    },
    succeeded() {
      failures = 0;
      notBefore = 0;
    },
  };
}

/** Creates a function that pauses the process until a full channel has room again. */
export function createPauser(running: () => { pause(): void; resume(): void } | undefined): (full: Channel) => void {
  let blockedBy: Channel | undefined;
  function resume(): void {
    blockedBy = undefined;
    running()?.resume();
  }
  return function pauseFor(full) {
    if (full === blockedBy) return;
    blockedBy = full;
    running()?.pause();
    full.onDrain(resume);
    full.onGone(resume);
  };
}
