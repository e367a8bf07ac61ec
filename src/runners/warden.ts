import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { basename, resolve } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { type InstanceOwner, isOwnedBy, thisProcess } from './instance-owner.ts';
import { startTimeOf } from './process-table.ts';
import { readLines } from './read-lines.ts';
import { removeFolder } from './remove-folder.ts';
import { formatCommand, parseSwept, type Ward, type WardenCommand, wardKey, wardName } from './warden-protocol.ts';

/** Sees to it that what Ambit started is gone when Ambit is, however that comes about. */
export interface Warden {
  /** Its own process; undefined while it is not running. */
  readonly pid: number | undefined;
  /** Starts it ahead of the first process; rejects when it cannot be started. */
  start(): Promise<void>;
  /** To be called right after a process was started; its folder must lie directly in the root and never be used again. */
  watch(pid: number, tmpDir: string): void;
  /** The process has ended: resolves when what it left behind is gone too. Never rejects, may be asked again. */
  release(pid: number, tmpDir: string): Promise<void>;
  /** Resolves when everything is swept and the warden has left, after two seconds at the latest. */
  close(): Promise<void>;
}

export interface WardenOptions {
  /** This instance's folder, see createTmpRoot. */
  readonly tmpRoot: string;
  /** `groups` where there is no /proc: then only whole process groups can be killed. */
  readonly processTable?: 'proc' | 'groups';
}

interface Release {
  readonly ward: Ward;
  readonly done: Promise<void>;
  readonly swept: () => void;
}

interface Post {
  readonly child: ChildProcess | undefined;
  readonly ready: Promise<void>;
  readonly since: number;
  tell(command: WardenCommand): void;
  /** The last thing it hears. */
  dismiss(): void;
}

const smallProcess = ['--max-old-space-size=32', '--max-semi-space-size=1', '--no-opt'];
const startAttempts = 3;
const startPauseMs = 100;
const closeLimitMs = 2000;
const longestPauseMs = 5000;
/** Having lived this long, a warden that dies is started again at once. */
const provenMs = 10_000;

const program = fileURLToPath(
  import.meta.url.endsWith('.ts')
    ? new URL('../../dist/runners/warden-process.js', import.meta.url)
    : new URL('./warden-process.js', import.meta.url),
);

export function createWarden(options: WardenOptions): Warden {
  const root = resolve(options.tmpRoot);
  const self = thisProcess();
  const processTable = options.processTable ?? (self.start === 0 ? 'groups' : 'proc');
  const watched = new Map<string, Ward>();
  const released = new Map<string, Release>();
  let post: Post | undefined;
  let restart: NodeJS.Timeout | undefined;
  let failures = 0;
  let closed: Promise<void> | undefined;
  let left: (() => void) | undefined;

  function startPost(): Post {
    clearTimeout(restart);
    const since = performance.now();
    let child: ChildProcess;
    try {
      child = startProgram(root, self, processTable);
    } catch (cause) {
      const failed: Post = {
        child: undefined,
        ready: Promise.reject(couldNotStart(cause)),
        since,
        tell() {},
        dismiss() {},
      };
      failed.ready.catch(() => onLeft(failed));
      return failed;
    }
    // Without a free descriptor Node makes no streams; the error event says so.
    const stdin = child.stdin as Socket | undefined;
    const stdout = child.stdout as Socket | undefined;
    const ready = new Promise<void>((accept, reject) => {
      const leave = (cause: unknown, code?: number | null) => {
        reject(couldNotStart(cause));
        onLeft(started, code);
      };
      child.once('error', (error) => leave(error));
      child.once('exit', (code, signal) => leave(new Error(`It left with ${code ?? signal}.`), code));
      if (stdout === undefined) return;
      readLines(stdout, {
        maxBytes: 512,
        onLine(line) {
          const text = line.toString('latin1');
          if (text === 'ready') accept();
          else onSwept(parseSwept(text));
        },
        onTooLong() {},
        onRunaway() {},
      });
    });
    for (const stream of [stdin, stdout]) stream?.on('error', () => {});
    const letGo = () => {
      // Once it stands, it must not be what keeps Ambit from leaving.
      if (closed === undefined) for (const handle of [child, stdin, stdout]) handle?.unref();
    };
    ready.then(letGo, letGo);
    const started: Post = {
      child,
      ready,
      since,
      tell: (command) => stdin?.write(formatCommand(command)),
      dismiss() {
        child.ref();
        stdin?.end(formatCommand({ do: 'close' }));
      },
    };
    for (const ward of watched.values()) started.tell({ do: 'watch', ward });
    for (const { ward } of released.values()) started.tell({ do: 'release', ward });
    return started;
  }

  function ensure(): Post {
    post ??= startPost();
    return post;
  }

  function onSwept(key: string | undefined): void {
    if (key === undefined) return;
    released.get(key)?.swept();
    released.delete(key);
  }

  function onLeft(leaver: Post, code?: number | null): void {
    if (post !== leaver) return;
    post = undefined;
    if (closed !== undefined && code === 0) {
      left?.();
      return;
    }
    failures = performance.now() - leaver.since > provenMs ? 0 : failures + 1;
    if (closed === undefined && watched.size === 0 && released.size === 0) return;
    const pause = failures <= 1 ? 0 : Math.min(50 * 2 ** failures, longestPauseMs);
    restart = setTimeout(() => (closed === undefined ? ensure() : ensure().dismiss()), pause);
    restart.unref();
  }

  async function closeOnce(): Promise<void> {
    if (post === undefined && watched.size === 0 && released.size === 0) {
      if (await isOwnedBy(root, self)) await removeFolder(root);
      return;
    }
    await new Promise<void>((accept) => {
      const limit = setTimeout(accept, closeLimitMs);
      left = () => {
        clearTimeout(limit);
        accept();
      };
      ensure().dismiss();
    });
    // Past the limit it is left to finish by itself: it has been told all, and its stdin is closed.
    clearTimeout(restart);
    post?.child?.unref();
    for (const { swept } of released.values()) swept();
    released.clear();
  }

  return {
    get pid() {
      return post?.child?.pid;
    },
    async start() {
      for (let attempt = 1; ; attempt++) {
        if (closed !== undefined) throw new Error('The warden has been closed.');
        try {
          return await ensure().ready;
        } catch (error) {
          // A machine short of memory or processes may have some a moment later.
          if (attempt === startAttempts) throw error;
          await delay(startPauseMs * attempt);
        }
      }
    },
    watch(pid, tmpDir) {
      if (closed !== undefined) throw new Error('The warden has been closed.');
      if (!Number.isSafeInteger(pid) || pid <= 1) throw new Error(`Not a process that can be watched: ${pid}`);
      const ward = { pid, start: startTimeOf(pid) ?? 0, name: wardName(root, tmpDir) };
      // First the warden, then the entry: a warden started just here is told all entries there are.
      const present = ensure();
      watched.set(wardKey(ward), ward);
      present.tell({ do: 'watch', ward });
    },
    release(pid, tmpDir) {
      const key = wardKey({ pid, name: basename(tmpDir) });
      const ward = watched.get(key);
      if (ward === undefined || closed !== undefined) return released.get(key)?.done ?? Promise.resolve();
      watched.delete(key);
      let swept: () => void = () => {};
      const done = new Promise<void>((accept) => {
        swept = accept;
      });
      released.set(key, { ward, done, swept });
      post?.tell({ do: 'release', ward });
      return done;
    },
    close() {
      closed ??= closeOnce();
      return closed;
    },
  };
}

function startProgram(root: string, self: InstanceOwner, processTable: string): ChildProcess {
  const args = [program, root, String(self.pid), String(self.start), processTable];
  return spawn(process.execPath, [...smallProcess, ...args], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    // Named as undefined, the coverage variable is not handed down by Node on its own.
    env: { NODE_V8_COVERAGE: undefined, UV_THREADPOOL_SIZE: '1' },
  });
}

function couldNotStart(cause: unknown): Error {
  return new Error('The warden process could not be started.', { cause });
}
