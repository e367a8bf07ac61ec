import type { Readable } from 'node:stream';
import type { Exit, ProcessLaunch, Runner, RunningProcess } from './runner.ts';

/**
 * The connection to a running server: bytes to the server, bytes from the server, and its end. Links use only this
 * interface, so a server in a pod or behind a socket needs no other link. The content of the bytes is up to the links.
 */
export interface ProcessChannel {
  /** Undefined where the server is no process of this machine. */
  readonly pid: number | undefined;
  /** Sends bytes, in the order of the calls. Never throws: bytes that the server can no longer get are dropped. */
  write(bytes: Buffer): void;
  /** The number of written bytes that the server has not taken yet. */
  backlog(): number;
  /** The bytes that the server sends. It ends when the server can send no more; the process may still exist then. */
  readonly output: Readable;
  /** Text of the server for its operator: its stderr. A server without such a text has an empty stream. */
  readonly diagnostics: Readable;
  /** Settles once, when the server has ended and its output was read or given up. Never rejects. */
  readonly exited: Promise<Exit>;
  /** Lets the server finish, then ends it by force. Can be called several times. */
  end(): Promise<Exit>;
}

/** Starts a server and connects to it: with the channel of the runner if it has one, otherwise over stdio. */
export async function openProcessChannel(runner: Runner, launch: ProcessLaunch): Promise<ProcessChannel> {
  if (runner.openChannel !== undefined) return runner.openChannel(launch);
  return createStdioChannel(await runner.start(launch));
}

/** The channel over stdin, stdout and stderr of a process. */
function createStdioChannel({ pid, stdin, stdout, stderr, exited, end }: RunningProcess): ProcessChannel {
  return {
    pid,
    write: (bytes) => void stdin.write(bytes),
    backlog: () => stdin.writableLength,
    output: stdout,
    diagnostics: stderr,
    exited,
    end,
  };
}
