import type { Readable, Writable } from 'node:stream';
import type { Confinement } from './common/confinement.ts';
import type { EnforcedLimits, ResourceLimits } from './limits/limits.ts';
import type { DirectPackages, NpxSetup } from './packages/direct-packages.ts';
import type { Packages } from './packages/packages.ts';
import type { Reaper } from './reaper/reaper.ts';

/** Everything a runner needs to start one upstream process; Ambit's own environment is not used. */
export interface ProcessLaunch {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** The private folder of the process, outside a sandbox also in env.TMPDIR; the runner makes and removes it. */
  readonly tmpDir: string;
  /** Called right before the process starts; if it throws, nothing is started. */
  readonly beforeSpawn?: (() => void) | undefined;
  /** Undefined where several sessions share the process. */
  readonly sessionId?: string | undefined;
  /** Processes of one owner share their limits; a process without an owner has its own. */
  readonly owner?: string | undefined;
  /** Set when the process must run in a sandbox; then `env` holds only configured and session variables. */
  readonly confinement?: Confinement | undefined;
  /** The proxy of a process that may reach hosts; without one there is no network. */
  readonly egressProxy?: EgressProxy | undefined;
  /** Additions for an npx that is started as written. */
  readonly npx?: NpxSetup | undefined;
}

export interface EgressProxy {
  /** The path of its socket, outside. */
  readonly socket: string;
  /** The hosts that the proxy lets through. */
  readonly allowed: readonly string[];
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The reason, if Ambit ended the process. */
  readonly reason?: string;
  /** Set when the process could not be started. */
  readonly error?: Error;
}

export interface RunningProcess {
  readonly pid: number | undefined;
  /** The first process of the server, where it does not descend from the process `pid`. */
  readonly first?: number | undefined;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Settles once, after stdio closed or a short grace; never rejects. */
  readonly exited: Promise<Exit>;
  /** Closes stdin, waits, sends TERM to the group, waits, sends KILL to the group; idempotent. */
  end(): Promise<Exit>;
}

export interface Runner {
  readonly name: string;
  /** True where a process in a sandbox sees each file at its own path, because nothing can be mounted elsewhere. */
  readonly keepsPaths?: boolean;
  /** Rejects when the process cannot be started, leaving nothing behind. */
  start(launch: ProcessLaunch): Promise<RunningProcess>;
  /**
   * Starts a server and connects to it in another way than over stdio. Rejects as `start` does. A runner without this
   * method connects to servers over stdio.
   */
  readonly openChannel?: (launch: ProcessLaunch) => Promise<ProcessChannel>;
}

/**
 * The connection to a running server: bytes to the server, bytes from the server, and its end. Links use only this
 * interface, so a server in a pod or behind a socket needs no other link. The content of the bytes is up to the links.
 */
export interface ProcessChannel {
  /** Undefined where the server is no process of this machine. */
  readonly pid: number | undefined;
  /** The first process of the server, where it does not descend from the process `pid`. */
  readonly first?: number | undefined;
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

/** A running process of a server, for its operator. */
export interface ProcessFacts {
  readonly pid: number | undefined;
  /** The process from which all others of the server descend. */
  readonly first: number | undefined;
  /** The name of the runner that started it. */
  readonly runner: string;
  /** The limits of the sandbox; undefined without one. */
  readonly bounds: { readonly limits: ResourceLimits; readonly enforced: EnforcedLimits } | undefined;
}

export interface ProbeResult {
  /** The protections that hold inside, by name; a probe that finds one missing fails. */
  readonly enforced: Readonly<Record<string, boolean>>;
  readonly limits: EnforcedLimits;
  /** The program that provides it, if there is a choice. */
  readonly by?: string;
}

/**
 * A runner that keeps a process within its confinement. It grants exactly that, for this launch alone: two launches
 * share no policy.
 */
export interface SandboxRunner extends Runner {
  /**
   * Starts something for real. Rejects with SANDBOX_UNAVAILABLE, whose hint is the remedy on this machine. A success is
   * remembered; after a failure each call tries again.
   */
  probe(): Promise<ProbeResult>;
}

/** The kind of a runner follows from what is to be started, never from what is available. */
export interface Runners {
  readonly plain: Runner;
  /** The sandboxes in the order in which they are tried. */
  readonly sandboxes: readonly SandboxRunner[];
  /** The one among them that runs containers. */
  readonly container: SandboxRunner;
  /** The packages that servers are started from; for sandboxes, in which nothing can be fetched. */
  readonly packages: Packages;
  /** The packages of servers in direct sessions. */
  readonly directPackages: DirectPackages;
  /**
   * The first sandbox that works here, or for an image the first that runs images. Rejects with the reason and remedy
   * of the first one when none does. Never `plain`.
   */
  sandbox(image?: string): Promise<SandboxRunner>;
}

export interface RunnerOptions {
  readonly reaper: Reaper;
  /** The instance's folder, in which the reaper finds the folders of processes. */
  readonly tmpRoot: string;
  readonly timing?: EndTiming;
}

/** The time a process has to exit after its stdin closed, and after TERM. */
export interface EndTiming {
  readonly closeMs: number;
  readonly termMs: number;
}

/** Starts a server and connects to it: with the channel of the runner if it has one, otherwise over stdio. */
export async function openProcessChannel(runner: Runner, launch: ProcessLaunch): Promise<ProcessChannel> {
  if (runner.openChannel !== undefined) return runner.openChannel(launch);
  return createStdioChannel(await runner.start(launch));
}

/** The channel over stdin, stdout and stderr of a process. */
function createStdioChannel({ pid, first, stdin, stdout, stderr, exited, end }: RunningProcess): ProcessChannel {
  return {
    pid,
    first,
    write: (bytes) => void stdin.write(bytes),
    backlog: () => stdin.writableLength,
    output: stdout,
    diagnostics: stderr,
    exited,
    end,
  };
}
