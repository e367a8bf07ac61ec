import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Journal } from '../../../observability/journal/journal.ts';
import { scrubberFor, secretValues } from '../../../observability/log/scrub.ts';
import { lineOf } from '../../../protocol/lines/one-line.ts';
import { readLines } from '../../../protocol/lines/read-lines.ts';
import type { Confinement } from '../../../sandbox/common/confinement.ts';
import { baseEnvironment } from '../../../sandbox/common/environment.ts';
import type { Exit, Runners } from '../../../sandbox/runner.ts';
import type { StdioServer } from '../../definition.ts';
import type { ProcessSlot, StoppableProcess } from '../process-slots.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { recordStderr } from './record-output.ts';
import { openServerEgress, type ServerEgress } from './server-egress.ts';

/** Who is told what becomes of a server's processes, beside the journal. */
export interface ProcessWatch {
  spawned(pid: number | undefined): void;
  /** It can be called now. `again` when the one before it had ended by itself. */
  ready(pid: number | undefined, ms: number, again: boolean): void;
  /** It was started in vain. */
  failed(error: unknown): void;
  ended(pid: number | undefined, exit: Exit): void;
  /** It ended though nobody had asked it to. */
  lost(pid: number | undefined, exit: Exit): void;
}

/** For processes that nobody watches. */
export const noProcessWatch: ProcessWatch = { spawned() {}, ready() {}, failed() {}, ended() {}, lost() {} };

export interface ServerProcess {
  readonly pid: number | undefined;
  readonly startedAt: number;
  /** Bytes written that the process has not taken yet. */
  backlog(): number;
  /** Writes one message, as one line. */
  write(message: Buffer): void;
  pause(): void;
  resume(): void;
  end(): Promise<void>;
}

/** What a process is started with, beside its command. */
export interface PreparedLaunch {
  /** What is configured and what it is told about its session. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Resolves when the folder is there, where it has to be made first. */
  readonly ready?: (() => Promise<unknown>) | undefined;
  /** Given where the session is sandboxed. */
  readonly confinement: (() => Confinement) | undefined;
}

export interface ProcessOptions {
  readonly runners: Runners;
  readonly tmpRoot: string;
  /** Asked for each start: what a session may use, and where, may have changed since the last. */
  readonly prepare: () => PreparedLaunch;
  readonly journal: Journal;
  /** Undefined where several sessions share the process. */
  readonly sessionId: string | undefined;
  readonly messageBytes: number;
  /** Throws when this server may not start as its files and its session are now. */
  readonly mayStart: (prepared: PreparedLaunch) => void;
  /** The same for one that has started, before it gets a call: a start can take long. */
  readonly mayServe?: () => void;
  readonly watch: ProcessWatch;
  /** Processes of one owner share the limits of their sandbox. */
  readonly owner: string;
  /** A place among the processes there may be; rejects where there is none. */
  readonly takeSlot: (process: StoppableProcess) => Promise<ProcessSlot>;
}

export interface ProcessListener {
  /** False when the line is no message. */
  onLine(line: Buffer): boolean;
  onTooLong(head: Buffer, tail: Buffer): void;
  /** Its output has ended; it may still be there. */
  onSilence(): void;
  onExit(exit: Exit): void;
  /** What others may do about the process when they need its place. */
  readonly stoppable: StoppableProcess;
}

/** Twice as many may come at once. A server that prints what it does is borne, a flood of it is not. */
const unreadablePerSecond = 500;
let count = 0;

/** Starts a stdio upstream with an environment made from nothing, and turns its output into lines. */
export async function startServer(
  server: StdioServer,
  options: ProcessOptions,
  listener: ProcessListener,
): Promise<ServerProcess> {
  // Before anything else: what the session may do can change while this waits.
  const slot = await options.takeSlot(listener.stoppable);
  try {
    return await startInSlot(slot, server, options, listener);
  } catch (error) {
    slot.release();
    throw error;
  }
}

async function startInSlot(
  slot: ProcessSlot,
  server: StdioServer,
  options: ProcessOptions,
  listener: ProcessListener,
): Promise<ServerProcess> {
  const prepared = options.prepare();
  const { env: configuredEnv, cwd } = prepared;
  await prepared.ready?.();
  const tmpDir = join(options.tmpRoot, `p${++count}`);
  await mkdir(tmpDir, { recursive: true, mode: 0o700 });
  await mkdir(cwd, { recursive: true, mode: 0o700 });
  const scrubbed = scrubberFor(secretValues(configuredEnv));
  const started = performance.now();
  const fields = {
    kind: 'process' as const,
    sessionId: options.sessionId,
    server: server.name,
    runner: prepared.confinement === undefined ? options.runners.plain.name : 'sandbox',
  };
  let egress: ServerEgress | undefined;
  const start = async () => {
    const { image } = server.sandbox;
    const runner = prepared.confinement === undefined ? options.runners.plain : await options.runners.sandbox(image);
    fields.runner = runner.name;
    const sandboxed = prepared.confinement !== undefined;
    // An image brings its own programs.
    const { command, args } =
      sandboxed && image === undefined ? await options.runners.packages.ready(server.command, server.args) : server;
    const confinement = prepared.confinement?.();
    const env = confinement === undefined ? baseEnvironment(process.env, tmpDir, configuredEnv) : configuredEnv;
    const lastLook = () => options.mayStart(prepared);
    if (confinement !== undefined) egress = await openServerEgress(confinement, tmpDir, fields, options.journal);
    const wayOut = egress?.wayOut;
    const { sessionId, owner } = options;
    return runner.start({ command, args, env, cwd, tmpDir, sessionId, owner, lastLook, confinement, wayOut });
  };
  const running = await start().catch(async (error: unknown) => {
    await egress?.close();
    await rm(tmpDir, { recursive: true, force: true });
    options.journal.record({ ...fields, event: 'start-failed', detail: scrubbed(describeCause(error)) });
    if (isAmbitError(error)) throw error;
    throw new AmbitError('UPSTREAM_FAILED', {
      what: `The server "${server.name}" could not be started.`,
      cause: error,
    });
  });
  const { pid } = running;
  const end = () => {
    slot.markLeaving();
    return running.end();
  };
  options.watch.spawned(pid);
  options.journal.record({ ...fields, event: 'started', pid, ms: Math.round(performance.now() - started) });

  const unreadable = createRateLimit(unreadablePerSecond);
  /** Why it is ended, where it is ended for what it wrote. */
  let endReason: string | undefined;
  const lines = readLines(running.stdout, {
    maxBytes: options.messageBytes,
    onLine(line) {
      if (endReason !== undefined) return;
      if (listener.onLine(line)) unreadable.refill();
      else if (!unreadable.admit()) {
        endReason = floodReason;
        options.journal.record({ ...fields, event: 'unreadable-lines', pid });
        running.stdout.destroy();
        void end();
      }
    },
    onTooLong: listener.onTooLong,
    onRunaway() {
      endReason ??= endlessLineReason;
      options.journal.record({ ...fields, event: 'endless-line', pid });
      void end();
    },
    onEnd: listener.onSilence,
  });
  recordStderr(running.stderr, (line, dropped) =>
    options.journal.record({ ...fields, event: 'stderr', pid, line: scrubbed(line), dropped }),
  );
  void running.exited.then((left) => {
    const exit = endReason === undefined ? left : { ...left, reason: endReason };
    slot.release();
    void egress?.close();
    options.journal.record({
      ...fields,
      event: 'ended',
      pid,
      code: exit.code ?? undefined,
      signal: exit.signal ?? undefined,
      detail: exit.reason,
    });
    options.watch.ended(pid, exit);
    listener.onExit(exit);
  });

  return {
    pid,
    startedAt: Date.now(),
    backlog: () => running.stdin.writableLength,
    write: (message) => void running.stdin.write(lineOf(message)),
    pause: () => lines.pause(),
    resume: () => lines.resume(),
    async end() {
      await end();
      await egress?.close();
    },
  };
}

const floodReason =
  'it flooded its stdout with lines that are no MCP messages; what is not for the client belongs on stderr';
const endlessLineReason = 'it wrote a line without an end on its stdout';

/** With what lies behind it, which callers are not told. */
function describeCause(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause === undefined ? String(error) : `${error} (${cause})`;
}
