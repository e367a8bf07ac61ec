import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { basename, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { reaperProgram } from '../../package-paths.ts';
import { readLines } from '../../protocol/lines/read-lines.ts';
import { readStartTime } from '../processes/process-table.ts';
import {
  formatCommand,
  type InstanceOwner,
  isOwnedBy,
  parseSwept,
  type ReaperCommand,
  type TrackedProcess,
  thisProcess,
  trackedKey,
  trackedName,
} from './reaper-protocol.ts';

/** Ends everything that Ambit started when Ambit ends, for whatever reason. */
export interface Reaper {
  /** The pid of the reaper; undefined while it is not running. */
  readonly pid: number | undefined;
  /** Starts the reaper before the first process; rejects when that fails. */
  start(): Promise<void>;
  /** Tracks a process right after its start. Its folder must lie directly in the root and never be used again. */
  watch(pid: number, tmpDir: string): void;
  /** Releases an ended process; resolves when its leftovers are gone too. Never rejects, may be called again. */
  release(pid: number, tmpDir: string): Promise<void>;
  /** Resolves when the leftovers of all released processes are gone. */
  settled(): Promise<void>;
  /** Resolves when everything is swept and the reaper has exited, after two seconds at the latest. */
  close(): Promise<void>;
}

export interface ReaperOptions {
  /** The folder of this instance, see createTmpRoot. */
  readonly tmpRoot: string;
  /** `groups` without /proc: then only whole process groups can be killed. */
  readonly processTable?: 'proc' | 'groups';
}

interface PendingRelease {
  readonly tracked: TrackedProcess;
  readonly done: Promise<void>;
  readonly swept: () => void;
}

const startAttempts = 3;
const startPauseMs = 100;
const closeLimitMs = 2000;
const maxRestartPauseMs = 5000;
/** After this time, a reaper that dies is started again at once. */
const stableMs = 10_000;

export function createReaper(options: ReaperOptions): Reaper {
  const root = resolve(options.tmpRoot);
  const ambit = thisProcess();
  const processTable = options.processTable ?? (ambit.start === 0 ? 'groups' : 'proc');
  const watched = new Map<string, TrackedProcess>();
  const released = new Map<string, PendingRelease>();
  let client: ReaperClient | undefined;
  let restart: NodeJS.Timeout | undefined;
  let failures = 0;
  let isClosing = false;
  let closed: Promise<void> | undefined;
  let onClientLeft: () => void = () => {};

  function ensureClient(): ReaperClient {
    if (client !== undefined) return client;
    clearTimeout(restart);
    const started = startReaperClient({ root, ambit, processTable, onSwept, onLeft });
    client = started;
    for (const tracked of watched.values()) started.send({ do: 'watch', tracked });
    for (const { tracked } of released.values()) started.send({ do: 'release', tracked });
    started.ready.then(updateKeepAlive, () => {});
    return started;
  }

  /** A running reaper that has no pending work must not keep Ambit alive. */
  function updateKeepAlive(): void {
    client?.keepAlive(isClosing || released.size > 0);
  }

  function onSwept(key: string): void {
    released.get(key)?.swept();
    released.delete(key);
    if (released.size === 0) updateKeepAlive();
  }

  function onLeft(leaver: ReaperClient, code: number | null): void {
    if (client !== leaver) return;
    client = undefined;
    if (isClosing && code === 0) {
      onClientLeft();
      return;
    }
    failures = performance.now() - leaver.startedAt > stableMs ? 0 : failures + 1;
    if (!isClosing && watched.size === 0 && released.size === 0) return;
    const pause = failures <= 1 ? 0 : Math.min(50 * 2 ** failures, maxRestartPauseMs);
    restart = setTimeout(() => {
      const next = ensureClient();
      if (isClosing) next.close();
    }, pause);
  }

  async function closeOnce(): Promise<void> {
    if (client === undefined && watched.size === 0 && released.size === 0) {
      if (await isOwnedBy(root, ambit)) await removeFolder(root);
      return;
    }
    await new Promise<void>((accept) => {
      const limit = setTimeout(accept, closeLimitMs);
      onClientLeft = () => {
        clearTimeout(limit);
        accept();
      };
      ensureClient().close();
      updateKeepAlive();
    });
    // After the limit the reaper finishes by itself: it knows all processes, and its stdin is closed.
    clearTimeout(restart);
    client?.keepAlive(false);
    for (const { swept } of released.values()) swept();
    released.clear();
  }

  return {
    get pid() {
      return client?.pid;
    },
    async start() {
      for (let attempt = 1; ; attempt++) {
        if (isClosing) throw new Error('The reaper has been closed.');
        try {
          return await ensureClient().ready;
        } catch (error) {
          // A machine short of memory or processes may recover a moment later.
          if (attempt === startAttempts) throw error;
          await delay(startPauseMs * attempt);
        }
      }
    },
    watch(pid, tmpDir) {
      if (isClosing) throw new Error('The reaper has been closed.');
      if (!Number.isSafeInteger(pid) || pid <= 1) throw new Error(`Not a process that can be watched: ${pid}`);
      const tracked = { pid, start: readStartTime(pid) ?? 0, name: trackedName(root, tmpDir) };
      // The reaper is started before the entry is added: a new reaper is sent all existing entries.
      const present = ensureClient();
      watched.set(trackedKey(tracked), tracked);
      present.send({ do: 'watch', tracked });
    },
    release(pid, tmpDir) {
      const key = trackedKey({ pid, name: basename(tmpDir) });
      const tracked = watched.get(key);
      if (tracked === undefined || isClosing) return released.get(key)?.done ?? Promise.resolve();
      watched.delete(key);
      let swept: () => void = () => {};
      const done = new Promise<void>((accept) => {
        swept = accept;
      });
      released.set(key, { tracked, done, swept });
      client?.send({ do: 'release', tracked });
      updateKeepAlive();
      return done;
    },
    async settled() {
      await Promise.all([...released.values()].map(({ done }) => done));
    },
    close() {
      isClosing = true;
      closed ??= closeOnce();
      return closed;
    },
  };
}

/** The connection to the reaper process. The process can die; then another client starts the next one. */
interface ReaperClient {
  readonly pid: number | undefined;
  readonly startedAt: number;
  /** Rejects when the process exits before it could take a command. */
  readonly ready: Promise<void>;
  send(command: ReaperCommand): void;
  /** Sends the last command. */
  close(): void;
  /** Sets whether this client keeps Ambit alive. */
  keepAlive(isNeeded: boolean): void;
}

interface ReaperClientOptions {
  readonly root: string;
  readonly ambit: InstanceOwner;
  readonly processTable: 'proc' | 'groups';
  onSwept(key: string): void;
  /** Called once; the code is null when it was killed or never ran. */
  onLeft(client: ReaperClient, code: number | null): void;
}

const smallProcessFlags = ['--max-old-space-size=32', '--max-semi-space-size=1', '--no-opt'];

/** Never throws: a process that cannot be started counts as exited. */
function startReaperClient(options: ReaperClientOptions): ReaperClient {
  let child: ChildProcess | undefined;
  let failure: unknown;
  try {
    child = spawnReaper(options);
  } catch (error) {
    failure = error;
  }
  // Without free descriptors, Node makes a child without streams and emits an error.
  const stdin = child?.stdin as Socket | undefined;
  const stdout = child?.stdout as Socket | undefined;
  let hasLeft = false;

  const ready = new Promise<void>((accept, reject) => {
    const leave = (cause: unknown, code: number | null) => {
      if (hasLeft) return;
      hasLeft = true;
      reject(new Error('The reaper process could not be started.', { cause }));
      options.onLeft(client, code);
    };
    if (child === undefined) {
      process.nextTick(leave, failure, null);
      return;
    }
    child.once('error', (error) => leave(error, null));
    child.once('exit', (code, signal) => leave(new Error(`It exited with ${code ?? signal}.`), code));
    if (stdout === undefined) return;
    readLines(stdout, {
      maxBytes: 512,
      onLine(line) {
        const text = line.toString('latin1');
        const swept = parseSwept(text);
        if (text === 'ready') accept();
        else if (swept !== undefined) options.onSwept(swept);
      },
      onTooLong() {},
      onRunaway() {},
    });
  });
  ready.catch(() => {});
  for (const stream of [stdin, stdout]) stream?.on('error', () => {});

  const client: ReaperClient = {
    pid: child?.pid,
    startedAt: performance.now(),
    ready,
    send: (command) => stdin?.write(formatCommand(command)),
    close: () => stdin?.end(formatCommand({ do: 'close' })),
    keepAlive(isNeeded) {
      for (const handle of [child, stdin, stdout]) {
        if (isNeeded) handle?.ref();
        else handle?.unref();
      }
    },
  };
  return client;
}

function spawnReaper({ root, ambit, processTable }: ReaperClientOptions): ChildProcess {
  const args = [reaperProgram, root, String(ambit.pid), String(ambit.start), processTable];
  return spawn(process.execPath, [...smallProcessFlags, ...args], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    // Set to undefined, since Node would add the coverage variable by itself.
    env: { NODE_V8_COVERAGE: undefined, UV_THREADPOOL_SIZE: '1' },
  });
}
