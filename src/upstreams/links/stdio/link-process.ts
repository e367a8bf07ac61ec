import { setTimeout as delay } from 'node:timers/promises';
import { type AmbitError, isAmbitError } from '../../../errors.ts';
import { EraError } from '../../../protocol/protocol-error.ts';
import type { Exit } from '../../../sandbox/runner.ts';
import type { StdioServer } from '../../definition.ts';
import type { Opening } from '../handshake.ts';
import type { LinkUsers } from '../link-pool.ts';
import { failCall, type PendingCalls } from '../relay/pending-calls.ts';
import type { Binding } from '../relay/towards-upstream.ts';
import { exitError, readStderrLines, startTimeoutError } from '../upstream-errors.ts';
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
  readonly users: Pick<LinkUsers, 'key'>;
  /** A process that the link of the other era has started; used instead of a new one. */
  readonly spare?: SpareProcess | undefined;
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
  /** The process that takes calls, or the one of another link that has not been opened yet. */
  findIdle(): ServerProcess | undefined;
  /** Starts the process if there is none. `callId` is the correlation id of the call that needs it. */
  ready(callId?: string): Promise<ServerProcess>;
  /** Ends the process; the next call starts another. */
  stop(): void;
  /** Gives the process up, so that a link of the other era can take it. */
  release(): SpareProcess | undefined;
  /** Takes a process that a link of the other era gave up, unless there is a process already. */
  adopt(spare: SpareProcess): void;
  /** The process has answered: the delay of its restarts is reset. */
  succeeded(): void;
  /** The reason of `close`; undefined until then. */
  closedFor(): AmbitError | undefined;
  close(reason: AmbitError): Promise<void>;
}

/**
 * A process that runs, has had no call, and is of another era than its link. The link of that era can take it, once and
 * at once: what nobody takes before the next turn of the event loop is ended.
 */
export interface SpareProcess {
  /** The process, if it was started for the same definition of the server and the same sessions. */
  take(server: StdioServer, usersKey: string): { readonly process: ServerProcess; readonly lastId: number } | undefined;
}

/** The error of a process that is of another era than its link, with the process. */
export class SpareProcessError extends EraError {
  readonly spare: SpareProcess;

  constructor({ rpc, status, message, data }: EraError, spare: SpareProcess) {
    super(rpc, status, message, data);
    this.spare = spare;
  }
}

const probeEnd = 'it ended while Ambit detected its protocol era';

/** A process that ends this soon after its start counts as a failed start. */
const earlyExitMs = 10_000;
const firstBackoffMs = 100;
const maxBackoffMs = 10_000;

/** The state of a link's process that its functions share. */
interface ProcessState {
  readonly backoff: Backoff;
  current: ServerProcess | undefined;
  running: ServerProcess | undefined;
  starting: Promise<ServerProcess> | undefined;
  leaving: Promise<void> | undefined;
  closing: AmbitError | undefined;
  /** True when the last process ended by itself. */
  wasLost: boolean;
  /** The last process that took calls. */
  opened: ServerProcess | undefined;
  /** The last process that Ambit ended before it took calls. */
  rejected: ServerProcess | undefined;
  /** True when the current process has written a message: it works, or did. */
  hasSpoken: boolean;
  /** A process of the link of the other era that was not opened yet. */
  adopted: ServerProcess | undefined;
}

function createProcessState(): ProcessState {
  return {
    backoff: createBackoff(),
    current: undefined,
    running: undefined,
    starting: undefined,
    leaving: undefined,
    closing: undefined,
    wasLost: false,
    opened: undefined,
    rejected: undefined,
    hasSpoken: false,
    adopted: undefined,
  };
}

export function createLinkProcess(options: LinkProcessOptions): LinkProcess {
  const { server, processOptions, opening, pending, ownRequests } = options;
  const state = createProcessState();
  let abandon: (reason: AmbitError) => void = () => {};
  const abandoned = new Promise<never>((_, reject) => {
    abandon = reject;
  });
  abandoned.catch(() => {});

  function ready(callId?: string): Promise<ServerProcess> {
    if (state.running !== undefined) return Promise.resolve(state.running);
    state.starting ??= reportStartFailure(start(callId), processOptions.watch).finally(() => {
      state.starting = undefined;
    });
    return state.starting;
  }

  async function start(callId: string | undefined): Promise<ServerProcess> {
    opening.assertPossible();
    const reopened = await openAdopted(state, options);
    if (reopened !== undefined) return reopened;
    await state.leaving;
    await state.backoff.wait();
    if (state.closing !== undefined) throw state.closing;
    let fresh: ServerProcess | undefined;
    options.onStart();
    state.hasSpoken = false;
    const began = performance.now();
    const listener = createListener(() => fresh);
    fresh = await startServer(server, { ...processOptions, callId }, listener);
    state.current = fresh;
    if (state.closing !== undefined) {
      await fresh.end();
      throw state.closing;
    }
    await openProcess(state, options, fresh, began);
    return fresh;
  }

  function createListener(process: () => ServerProcess | undefined): ProcessListener {
    return {
      onLine: (line) => noteMessage(process(), options.onLine(line)),
      onTooLong: options.onTooLong,
      onSilence: () => onOutputEnd(process()),
      onExit: (exit) => onExit(process(), exit),
      abandoned,
      stoppable: {
        idleSince: () => (process() !== undefined && process() === findIdle() ? options.idleSince() : undefined),
        hasClients: options.hasClients,
        end: stop,
      },
    };
  }

  function noteMessage(from: ServerProcess | undefined, isMessage: boolean): boolean {
    if (isMessage && !state.hasSpoken && from === state.current) {
      state.hasSpoken = true;
      processOptions.watch.spoke();
    }
    return isMessage;
  }

  /** Finds the process that can be ended without a loss, if no call needs it. */
  function findIdle(): ServerProcess | undefined {
    return state.running ?? state.adopted;
  }

  function stop(): void {
    const idle = findIdle();
    state.running = undefined;
    state.adopted = undefined;
    state.current = undefined;
    void idle?.end();
  }

  /** Ends a process whose output has ended: it can answer nothing any more. */
  function onOutputEnd(ended: ServerProcess | undefined): void {
    if (ended === undefined || ended !== state.current) return;
    state.running = undefined;
    state.leaving = ended.end().finally(() => {
      state.leaving = undefined;
    });
  }

  function onExit(ended: ServerProcess | undefined, exit: Exit): void {
    if (ended !== state.current) return;
    state.current = undefined;
    state.running = undefined;
    const output = ended?.output() ?? { lines: [], quote: undefined };
    const failure = state.closing ?? exitError(server.name, exit, output);
    const waiting = pending.drain();
    if (state.closing === undefined && ended !== state.rejected) {
      state.wasLost = true;
      if (ended === state.opened) reportExit(ended?.pid, exit, failure, waiting.length > 0);
    }
    options.onExit();
    ownRequests.fail(failure);
    if (waiting.length > 0 || ended === undefined || Date.now() - ended.startedAt < earlyExitMs) state.backoff.failed();
    for (const call of waiting) failCall(call, failure);
  }

  /**
   * Reports a process that took calls and ended by itself. One that never wrote a message has not started. One that leaves
   * with code 0 while nobody waits for it does so by its own design.
   */
  function reportExit(pid: number | undefined, exit: Exit, failure: AmbitError, isMissed: boolean): void {
    if (exit.code === 0 && exit.reason === undefined && !isMissed) return;
    if (state.hasSpoken) processOptions.watch.lost(pid, exit, readStderrLines(failure));
    else processOptions.watch.failed(failure);
  }

  function adopt(spare: SpareProcess): void {
    const isFree = state.current === undefined && state.starting === undefined && state.leaving === undefined;
    if (isFree && state.closing === undefined) adoptSpare(state, options, spare, createListener);
  }

  if (options.spare !== undefined) adopt(options.spare);

  return {
    running: () => state.running,
    findIdle,
    ready,
    stop,
    adopt,
    release() {
      const idle = state.running;
      if (idle === undefined || pending.size() > 0 || state.closing !== undefined) return undefined;
      state.running = undefined;
      return createSpare(state, options, idle);
    },
    succeeded: state.backoff.succeeded,
    closedFor: () => state.closing,
    async close(reason) {
      state.closing ??= reason;
      abandon(state.closing);
      for (const call of pending.drain()) failCall(call, state.closing);
      ownRequests.fail(state.closing);
      const last = state.running ?? state.adopted ?? (await state.starting?.catch(() => undefined));
      state.adopted = undefined;
      state.running = undefined;
      await Promise.all([last?.end(), state.leaving]);
    },
  };
}

/** Makes the first exchange with a process, which takes calls then. */
async function openProcess(
  state: ProcessState,
  options: LinkProcessOptions,
  fresh: ServerProcess,
  began: number,
): Promise<void> {
  const { server, processOptions, opening, binding, ownRequests, startMs } = options;
  try {
    const write = (bytes: Buffer) => fresh.write(bytes);
    const ask = (method: string, params: string, maxMs = startMs) => {
      const attached = binding.attacher.attachToParams(method, params, fresh.contextKey).params;
      return ownRequests.sendRequest(method, attached, write, Math.min(maxMs, startMs));
    };
    if (opening.isProbe) fresh.explainEnd(probeEnd);
    await opening.perform(ask, write);
    fresh.explainEnd(undefined);
    processOptions.mayServe();
  } catch (error) {
    state.rejected = fresh;
    const isUsable = state.current === fresh && state.leaving === undefined && state.closing === undefined;
    if (error instanceof EraError && isUsable) throw new SpareProcessError(error, createSpare(state, options, fresh));
    await fresh.end();
    throw isTimeout(error) ? startTimeoutError(server.name, startMs, fresh.output()) : error;
  }
  state.running = fresh;
  state.opened = fresh;
  processOptions.watch.ready(fresh.pid, performance.now() - began, state.wasLost);
  state.wasLost = false;
}

function adoptSpare(
  state: ProcessState,
  { server, users, pending, opening, ownRequests }: LinkProcessOptions,
  spare: SpareProcess,
  createListener: (process: () => ServerProcess) => ProcessListener,
): void {
  const taken = spare.take(server, users.key);
  if (taken === undefined) return;
  const { process, lastId } = taken;
  // A late answer to the probe must not look like the answer to another request.
  pending.skipIds(lastId);
  if (opening.onLateProbe !== undefined) ownRequests.expectLate(lastId - 1, opening.onLateProbe);
  process.handOver(createListener(() => process));
  state.current = process;
  state.adopted = process;
}

/**
 * Opens the process of the other link. A server may not work after a probe, so a failure leads to a new process. A refused
 * handshake is an answer, and no failure: the process can be used for the other era.
 */
async function openAdopted(state: ProcessState, options: LinkProcessOptions): Promise<ServerProcess | undefined> {
  const process = state.adopted;
  state.adopted = undefined;
  if (process === undefined || state.current !== process) return undefined;
  options.onStart();
  state.hasSpoken = true;
  try {
    await openProcess(state, options, process, performance.now() - (Date.now() - process.startedAt));
    return process;
  } catch (error) {
    const isRefusal = isAmbitError(error) && !error.code.startsWith('UPSTREAM_');
    if (isRefusal || error instanceof EraError || state.closing !== undefined) throw error;
    state.wasLost = false;
    state.backoff.succeeded();
    return undefined;
  }
}

function createSpare(
  state: ProcessState,
  { server, users, pending }: LinkProcessOptions,
  process: ServerProcess,
): SpareProcess {
  state.current = undefined;
  let isTaken = false;
  const lastId = pending.nextId();
  setImmediate(() => {
    if (isTaken) return;
    isTaken = true;
    void process.end();
  });
  return {
    take(wanted, usersKey) {
      if (isTaken || wanted !== server || usersKey !== users.key) return undefined;
      isTaken = true;
      return { process, lastId };
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

interface Backoff {
  wait(): Promise<void>;
  failed(): void;
  succeeded(): void;
}

/** Delays the restarts of a server that keeps crashing. One good answer resets the delay. */
function createBackoff(): Backoff {
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
