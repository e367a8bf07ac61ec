import { type ChildProcess, spawn } from 'node:child_process';
import type { Socket } from 'node:net';
import { wardenProgram } from '../../own-files.ts';
import { readLines } from '../../protocol/lines/read-lines.ts';
import type { InstanceOwner } from '../common/instance-owner.ts';
import { formatCommand, parseSwept, type ReaperCommand } from './reaper-protocol.ts';

/** The connection to the reaper process. The process can die; then another client starts the next one. */
export interface ReaperClient {
  readonly pid: number | undefined;
  readonly startedAt: number;
  /** Rejects when it leaves before it could take a command. */
  readonly ready: Promise<void>;
  send(command: ReaperCommand): void;
  /** The last thing it hears. */
  close(): void;
  /** Whether Ambit goes on living only for it. */
  keepAlive(held: boolean): void;
}

export interface ReaperClientOptions {
  readonly root: string;
  readonly ambit: InstanceOwner;
  readonly processTable: 'proc' | 'groups';
  onSwept(key: string): void;
  /** Called once; the code is null when it was killed or never ran. */
  onLeft(post: ReaperClient, code: number | null): void;
}

const smallProcessFlags = ['--max-old-space-size=32', '--max-semi-space-size=1', '--no-opt'];

/** Never throws: a process that cannot be started is one that has left. */
export function startReaperClient(options: ReaperClientOptions): ReaperClient {
  let child: ChildProcess | undefined;
  let failure: unknown;
  try {
    child = spawnReaper(options);
  } catch (error) {
    failure = error;
  }
  // Short of descriptors, Node makes a child without streams; its error event says so.
  const stdin = child?.stdin as Socket | undefined;
  const stdout = child?.stdout as Socket | undefined;
  let hasLeft = false;

  const ready = new Promise<void>((accept, reject) => {
    const leave = (cause: unknown, code: number | null) => {
      if (hasLeft) return;
      hasLeft = true;
      reject(new Error('The warden process could not be started.', { cause }));
      options.onLeft(client, code);
    };
    if (child === undefined) {
      process.nextTick(leave, failure, null);
      return;
    }
    child.once('error', (error) => leave(error, null));
    child.once('exit', (code, signal) => leave(new Error(`It left with ${code ?? signal}.`), code));
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
    keepAlive(held) {
      for (const handle of [child, stdin, stdout]) {
        if (held) handle?.ref();
        else handle?.unref();
      }
    },
  };
  return client;
}

function spawnReaper({ root, ambit, processTable }: ReaperClientOptions): ChildProcess {
  const args = [wardenProgram, root, String(ambit.pid), String(ambit.start), processTable];
  return spawn(process.execPath, [...smallProcessFlags, ...args], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'ignore'],
    // Named as undefined, the coverage variable is not handed down by Node on its own.
    env: { NODE_V8_COVERAGE: undefined, UV_THREADPOOL_SIZE: '1' },
  });
}
