import { basename, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { isOwnedBy, thisProcess } from '../common/instance-owner.ts';
import { readStartTime } from '../processes/process-table.ts';
import { type ReaperClient, startReaperClient } from './reaper-client.ts';
import { type TrackedProcess, trackedKey, trackedName } from './reaper-protocol.ts';

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
