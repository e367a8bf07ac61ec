import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { reaperProgram } from '../../package-paths.ts';
import { readLines } from '../../protocol/lines/read-lines.ts';
import type { InstanceOwner } from '../common/instance-owner.ts';
import { formatCommand, parseSwept, type ReaperCommand } from './reaper-protocol.ts';

/** The connection to the reaper process. The process can die; then another client starts the next one. */
export interface ReaperClient {
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
export function startReaperClient(options: ReaperClientOptions): ReaperClient {
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
