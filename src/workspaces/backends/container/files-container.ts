import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Log } from '../../../observability/log/log.ts';
import { filesProgram } from '../../../package-paths.ts';
import { volumeFolder } from '../../../sandbox/common/confinement.ts';
import { extractSandboxProblem } from '../../../sandbox/common/sandbox-errors.ts';
import type { ResourceLimits } from '../../../sandbox/limits/limits.ts';
import type { RunningProcess, SandboxRunner } from '../../../sandbox/runner.ts';
import {
  changingRequests,
  createFrameReader,
  encodeFrame,
  type FilesRequest,
  type FrameHead,
} from './files-protocol.ts';
import { parseRefusal } from './response-schemas.ts';

/** One container per volume: only there do dependent writes see each other. */
export interface SharedContainer {
  join(): void;
  /** Ends the container with its last user. */
  leave(): Promise<void>;
  /** Returns the running container, or starts one. */
  getRunning(): Promise<FilesContainer>;
}

export interface FilesContainerOptions {
  readonly runner: SandboxRunner;
  /** The folder of the instance, where the reaper finds the folders of processes. */
  readonly tmpRoot: string;
  /** The volume of the files; made when it does not exist. */
  readonly volume: string;
  readonly fileBytes: number;
  readonly log: Log;
  /** The bundled program that serves the files; Ambit's own by default. */
  readonly program?: string;
}

export interface FilesContainer {
  readonly connection: FilesConnection;
  /** Settles when the container is gone. */
  readonly exited: Promise<unknown>;
  end(): Promise<void>;
}

const MiB = 1024 * 1024;
const minContentBytes = 32 * MiB;
// The ending makes it an ES module wherever it lies.
const programPath = '/run/ambit/files.mjs';
const nodeOptions = ['--v8-pool-size=0', '--max-semi-space-size=1', '--max-old-space-size=192'];

/**
 * Starts the container with the files program. Rejects when that fails, leaving nothing behind. `onFailed` is called as
 * soon as the container answers no more, before pending calls are rejected.
 */
export async function startContainer(options: FilesContainerOptions, onFailed: () => void): Promise<FilesContainer> {
  const { runner, tmpRoot, volume, log, program = filesProgram, fileBytes } = options;
  const tmpDir = join(tmpRoot, `files-${randomBytes(8).toString('hex')}`);
  const running = await runner
    .start({
      command: process.execPath,
      args: [...nodeOptions, programPath],
      env: {},
      cwd: tmpDir,
      tmpDir,
      confinement: {
        home: { source: tmpDir, target: volumeFolder },
        volume,
        readable: [{ source: realpathSync.native(program), target: programPath }],
        writable: [],
        hidden: [],
        limits: containerLimits(fileBytes),
      },
    })
    .catch((error: unknown) => {
      log.warn('workspace container cannot be started', { volume, error: (error as Error).message });
      throw unreachableError(error);
    });
  let isEnding = false;
  const readTail = collectTail(running);
  const connection = connectToFiles(running.stdin, running.stdout, {
    maxContentBytes: Math.max(minContentBytes, fileBytes),
    onFailed,
    onBroken(why) {
      log.warn('workspace container lost', { volume, why: why.message });
      void end();
    },
  });
  const exited = running.exited.then((exit) => {
    connection.fail();
    if (isEnding) return;
    const how = exit.reason ?? readTail() ?? `it exited with ${exit.code ?? exit.signal}`;
    log.warn('workspace container lost', { volume, why: how });
  });

  async function end(): Promise<void> {
    isEnding = true;
    await running.end();
  }

  return { connection, exited, end };
}

function containerLimits(fileBytes: number): ResourceLimits {
  const fileMb = Math.ceil(fileBytes / MiB) + 1;
  return {
    memoryMb: 320 + 2 * Math.max(fileMb, minContentBytes / MiB),
    pids: 64,
    cpus: 2,
    fileMb,
    openFiles: 2048,
    // As long as a timer can be; the container ends when nobody needs it.
    wallSeconds: 2_000_000,
  };
}

function unreachableError(error: unknown): AmbitError {
  const why = isAmbitError(error) ? extractSandboxProblem(error) : undefined;
  const what = 'The files of this workspace are in a container, which cannot be started';
  return new AmbitError('WORKSPACE_UNAVAILABLE', {
    what: why === undefined ? `${what}.` : `${what}: ${why}`,
    ...(isAmbitError(error) ? { hint: error.hint } : {}),
    cause: error,
  });
}

function collectTail({ stderr }: RunningProcess): () => string | undefined {
  let tail = '';
  stderr.setEncoding('utf8').on('data', (text: string) => {
    tail = (tail + text).slice(-500);
  });
  return () => (tail === '' ? undefined : tail.trim());
}

/** Calls `start` with a function to call as soon as the container answers no more. */
export function createSharedContainer(start: (onFailed: () => void) => Promise<FilesContainer>): SharedContainer {
  let users = 0;
  let current: Promise<FilesContainer> | undefined;
  const running = new Set<Promise<FilesContainer>>();

  function startNew(): Promise<FilesContainer> {
    const forget = () => {
      if (current === started) current = undefined;
    };
    const started = start(forget);
    running.add(started);
    started.then(
      ({ exited }) => exited.then(() => running.delete(started)),
      () => {
        forget();
        running.delete(started);
      },
    );
    return started;
  }

  return {
    join() {
      users++;
    },
    async leave() {
      if (--users > 0) return;
      current = undefined;
      await Promise.allSettled([...running].map(async (each) => (await each).end()));
    },
    getRunning() {
      current ??= startNew();
      return current;
    },
  };
}

/** Limits the number of calls at a time and their total weight, in order of arrival. */
interface WeightLimit {
  /** Resolves to the function that releases. */
  acquire(weight: number): Promise<() => void>;
}

export interface FilesCall<T> {
  readonly request: FilesRequest;
  readonly body?: Uint8Array;
  /** The largest body of the response; 0 by default. */
  readonly maxBodyBytes?: number;
  /** Throws for an invalid response. */
  parse(ok: unknown, body: Buffer): T;
}

export interface FilesConnection {
  ask<T>(call: FilesCall<T>): Promise<T>;
  /** Rejects all pending and later calls. */
  fail(): void;
}

export interface FilesConnectionOptions {
  /** The total size of bodies sent at a time; a single larger one is sent alone. */
  readonly maxContentBytes: number;
  /** Called once when the connection has failed, before pending calls are rejected. */
  onFailed?(): void;
  /** Called once for an invalid response or a timeout. */
  onBroken(why: Error): void;
  readonly timeoutMs?: number;
}

interface PendingCall {
  readonly call: FilesCall<unknown>;
  readonly timeout: NodeJS.Timeout;
  accept(value: unknown): void;
  reject(error: unknown): void;
}

const maxPending = 64;

/** Sends calls to the program at the other end of two streams, many at a time. */
export function connectToFiles(stdin: Writable, stdout: Readable, options: FilesConnectionOptions): FilesConnection {
  const { maxContentBytes, onBroken, timeoutMs = 120_000 } = options;
  const pending = new Map<number, PendingCall>();
  const limit = createWeightLimit({ maxCount: maxPending, maxWeight: maxContentBytes });
  let lastId = 0;
  let hasFailed = false;

  const reader = createFrameReader({ maxBodyBytes: (head) => findPending(head).call.maxBodyBytes ?? 0, onFrame });
  stdout.on('data', (chunk: Buffer) => {
    if (hasFailed) return;
    try {
      reader.push(chunk);
    } catch (error) {
      breakConnection(error as Error);
    }
  });

  function findPending({ id }: FrameHead): PendingCall {
    const found = pending.get(id as number);
    if (found === undefined) throw new Error('An answer without a matching request.');
    return found;
  }

  function onFrame(head: FrameHead, body: Buffer): void {
    const { call, timeout, accept, reject } = findPending(head);
    const refusal = head['error'] === undefined ? undefined : parseRefusal(head['error']);
    const value = refusal === undefined ? call.parse(head['ok'], body) : undefined;
    pending.delete(head['id'] as number);
    clearTimeout(timeout);
    if (refusal === undefined) accept(value);
    else reject(refusal);
  }

  function breakConnection(why: Error): void {
    if (hasFailed) return;
    fail();
    onBroken(why);
  }

  function fail(): void {
    if (hasFailed) return;
    hasFailed = true;
    options.onFailed?.();
    for (const { call, timeout, reject } of pending.values()) {
      clearTimeout(timeout);
      reject(unansweredError(call.request));
    }
    pending.clear();
  }

  function send<T>(call: FilesCall<T>): Promise<T> {
    return new Promise<T>((accept, reject) => {
      if (hasFailed) {
        reject(new AmbitError('WORKSPACE_UNAVAILABLE'));
        return;
      }
      const id = ++lastId;
      const timeout = setTimeout(() => breakConnection(new Error('It did not answer in time.')), timeoutMs);
      pending.set(id, { call, timeout, accept: accept as (value: unknown) => void, reject });
      for (const part of encodeFrame({ id, ...call.request }, call.body)) stdin.write(part);
    });
  }

  return {
    async ask(call) {
      const release = await limit.acquire(call.body?.length ?? 0);
      try {
        return await send(call);
      } finally {
        release();
      }
    },
    fail,
  };
}

function unansweredError(request: FilesRequest): AmbitError {
  if (!changingRequests.has(request.do)) {
    return new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: 'The container with the files ended before it answered.',
      hint: 'Try again. The container is started again.',
    });
  }
  return new AmbitError('FILE_FAILED', {
    what: 'The container with the files ended before it answered. The operation may or may not have been done.',
    hint: 'Check the current state with session_file_info or session_read_file before you repeat it.',
  });
}

function createWeightLimit({
  maxCount,
  maxWeight,
}: {
  readonly maxCount: number;
  readonly maxWeight: number;
}): WeightLimit {
  const queue: { readonly weight: number; readonly go: () => void }[] = [];
  let activeCount = 0;
  let activeWeight = 0;

  /** A call that is too heavy runs alone. */
  const canStart = (weight: number) =>
    activeCount === 0 || (activeCount < maxCount && activeWeight + weight <= maxWeight);

  function startNext(): void {
    for (let [next] = queue; next !== undefined && canStart(next.weight); [next] = queue) {
      queue.shift();
      activeCount++;
      activeWeight += next.weight;
      next.go();
    }
  }

  return {
    async acquire(weight) {
      await new Promise<void>((go) => {
        queue.push({ weight, go });
        startNext();
      });
      return () => {
        activeCount--;
        activeWeight -= weight;
        startNext();
      };
    },
  };
}
