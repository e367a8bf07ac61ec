import { randomBytes } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { join } from 'node:path';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Log } from '../../../observability/log/log.ts';
import { filesProgram } from '../../../package-paths.ts';
import { volumeFolder } from '../../../sandbox/common/confinement.ts';
import { extractSandboxProblem } from '../../../sandbox/common/sandbox-errors.ts';
import type { ResourceLimits } from '../../../sandbox/limits/limits.ts';
import type { RunningProcess, SandboxRunner } from '../../../sandbox/runner.ts';
import { connectToFiles, type FilesConnection } from './connection.ts';

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
