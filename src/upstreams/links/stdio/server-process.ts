import { mkdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { type ContextKey, createContextKey } from '../../../context/for-tools/context-key.ts';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import { toPlainLine } from '../../../lib/text/escape-controls.ts';
import type { Journal } from '../../../observability/journal/journal.ts';
import { readLines } from '../../../protocol/lines/read-lines.ts';
import { composeLine } from '../../../protocol/lines/single-line.ts';
import {
  baseEnvironment,
  certificateVariables,
  showCertificates,
  showContextKey,
} from '../../../sandbox/common/base-environment.ts';
import type { Confinement } from '../../../sandbox/common/confinement.ts';
import { openEgress } from '../../../sandbox/egress/open-egress.ts';
import { createRefusalRecord } from '../../../sandbox/egress/refusal-record.ts';
import { isPackageRunner } from '../../../sandbox/packages/direct-packages.ts';
import type { Exit, ProcessFacts, ProcessLaunch, Runners } from '../../../sandbox/runner.ts';
import { openProcessChannel } from '../../../sandbox/runner.ts';
import type { StdioServer } from '../../definition.ts';
import type { ProcessSlot, StoppableProcess } from '../process-slots.ts';
import { createRateLimit } from '../relay/rate-limit.ts';
import { recordStderr, reportStderr } from './record-output.ts';
import { startError, workingFolderError } from './start-error.ts';
import { createOutputScrubber, keepStderrTail } from './stderr-tail.ts';

const maxNamed = 20;

/** Observes the processes of a server, beside the journal. */
export interface ProcessWatch {
  spawned(pid: number | undefined): void;
  /** The process takes calls now. `again` is true when the last one had ended by itself. */
  ready(pid: number | undefined, ms: number, again: boolean): void;
  /** The process has written its first message. */
  spoke(): void;
  /** The process has written a first line to stdout that is no message. The line is undefined where it may hold data. */
  garbled(line: string | undefined): void;
  /** The process did not start, or ended by itself before it wrote a message. */
  failed(error: unknown): void;
  ended(pid: number | undefined, exit: Exit): void;
  /** The process has ended by itself after it worked. */
  lost(pid: number | undefined, exit: Exit, stderr: readonly string[]): void;
  /** The process has written a line to stderr; secrets and control characters are removed. */
  wrote(line: string, pid: number | undefined): void;
}

export const noProcessWatch: ProcessWatch = {
  spawned() {},
  ready() {},
  spoke() {},
  garbled() {},
  failed() {},
  ended() {},
  lost() {},
  wrote() {},
};

export interface ServerProcess {
  readonly pid: number | undefined;
  readonly startedAt: number;
  /** The key that signs the context of its requests; undefined where the context is signed publicly. */
  readonly contextKey: ContextKey | undefined;
  /** Bytes written that the process has not taken yet. */
  backlog(): number;
  /** Writes one message, as one line. */
  write(message: Buffer): void;
  pause(): void;
  resume(): void;
  end(): Promise<void>;
  /** Passes the process to another link: from now on `listener` gets its messages and its end. */
  handOver(listener: ProcessListener): void;
  /** Sets the explanation that the journal adds if the process ends now, or none. */
  explainEnd(reason: string | undefined): void;
  /** The last lines of its stderr, and the line that callers may see; none where several sessions share the process. */
  output(): { readonly lines: readonly string[]; readonly quote: string | undefined };
}

/** The environment and working directory that a process is started with. */
export interface PreparedLaunch {
  /** The configured variables and those about the session. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Whether the working directory is a folder of the operator. Only such a folder is never made. */
  readonly isGivenFolder?: boolean;
  /** Makes the folder, where that is needed. */
  readonly ready?: (() => Promise<unknown>) | undefined;
  /** The variables that name the key file of the process; without them it has no key of its own. */
  readonly keyFileNames?: readonly string[] | undefined;
  /** Undefined where the session is not sandboxed. */
  readonly confinement: (() => Confinement) | undefined;
}

export interface ProcessOptions {
  readonly runners: Runners;
  readonly tmpRoot: string;
  /** Prepares each start: the session's access may have changed since the last one. */
  readonly prepare: () => PreparedLaunch;
  readonly journal: Pick<Journal, 'record'>;
  /** Undefined where several sessions share the process. */
  readonly sessionId: string | undefined;
  /** The correlation id of the call that needs the process. */
  readonly callId?: string | undefined;
  readonly messageBytes: number;
  /** Throws when this server may not start with its files and its session as they are now. */
  readonly mayStart: (prepared: PreparedLaunch) => void;
  /** Throws when a started server may not get calls: a start can take long. */
  readonly mayServe: () => void;
  readonly watch: ProcessWatch;
  /** Processes of one owner share the limits of their sandbox. */
  readonly owner: string;
  /** Takes a slot for the process; rejects when there is none. */
  readonly takeSlot: (process: StoppableProcess) => Promise<ProcessSlot>;
}

export interface ProcessListener {
  /** False when the line is no message. */
  onLine(line: Buffer): boolean;
  onTooLong(head: Buffer, tail: Buffer): void;
  /** The output has ended; the process may still exist. */
  onSilence(): void;
  onExit(exit: Exit): void;
  /** Lets others end the process when they need its slot. */
  readonly stoppable: StoppableProcess;
  /** Rejects when nobody needs the process any more. An installation may take minutes. */
  readonly abandoned: Promise<never>;
}

/** The number of unreadable lines per second; a burst may have twice as many. Some output of a server is tolerated. */
const unreadablePerSecond = 500;
let count = 0;

/** Starts a stdio upstream with an environment made from nothing, and turns its output into lines. */
export async function startServer(
  server: StdioServer,
  options: ProcessOptions,
  listener: ProcessListener,
): Promise<ServerProcess> {
  const holder = { listener };
  // The slot comes first: the session's access may change while this waits.
  const slot = await options.takeSlot({
    idleSince: () => holder.listener.stoppable.idleSince(),
    hasClients: () => holder.listener.stoppable.hasClients(),
    end: () => holder.listener.stoppable.end(),
  });
  try {
    return await startInSlot(slot, server, options, holder);
  } catch (error) {
    slot.release();
    throw error;
  }
}

/** Makes the working directory. A folder of the operator must exist. */
async function ensureWorkingFolder({ cwd, isGivenFolder }: PreparedLaunch, server: string): Promise<void> {
  if (!isGivenFolder) {
    await mkdir(cwd, { recursive: true, mode: 0o700 }).catch((error: unknown) => {
      throw workingFolderError(server, error);
    });
    return;
  }
  const stats = await stat(cwd).catch(() => undefined);
  if (stats?.isDirectory() !== true) {
    throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'The folder of the workspace no longer exists.' });
  }
}

async function startInSlot(
  slot: ProcessSlot,
  server: StdioServer,
  options: ProcessOptions,
  holder: { listener: ProcessListener },
): Promise<ServerProcess> {
  const prepared = options.prepare();
  const { env: configuredEnv, cwd } = prepared;
  await prepared.ready?.();
  const tmpDir = join(options.tmpRoot, `p${++count}`);
  await ensureWorkingFolder(prepared, server.name);
  await mkdir(tmpDir, { recursive: true, mode: 0o700 });
  const contextKey = prepared.keyFileNames === undefined ? undefined : createContextKey();
  // No variable has this name, so the secret hides no configured one from the scrubber.
  const secrets = contextKey === undefined ? {} : { 'context key': contextKey.secret };
  const settings = { env: { ...configuredEnv, ...secrets }, args: server.args };
  const scrubbed = createOutputScrubber(settings);
  const started = performance.now();
  const fields = {
    kind: 'process' as const,
    sessionId: options.sessionId,
    server: server.name,
    runner: prepared.confinement === undefined ? options.runners.plain.name : 'sandbox',
  };
  let egress: Awaited<ReturnType<typeof openServerEgress>>;
  let bounds: ProcessFacts['bounds'];
  const start = async () => {
    const { image } = server.sandbox;
    const sandboxed = prepared.confinement !== undefined;
    const sandbox = sandboxed ? await options.runners.sandbox(image) : undefined;
    const runner = sandbox ?? options.runners.plain;
    fields.runner = runner.name;
    const enforced = (await sandbox?.probe())?.limits;
    // An installation runs scripts of the package, so it must be allowed as the start is.
    options.mayStart(prepared);
    const ready = sandboxed
      ? prepareSandboxed(server, options, configuredEnv)
      : prepareDirect(server, options, configuredEnv, tmpDir);
    const program = await Promise.race([ready, holder.listener.abandoned]);
    const granted = prepared.confinement?.();
    const { confinement: withCertificates, env: certificates } =
      granted !== undefined && image === undefined && isPackageRunner(server.command)
        ? showCertificates(granted, process.env)
        : { confinement: granted, env: {} };
    const { confinement, env: keyFile } = showContextKey(withCertificates, {
      jwk: contextKey?.jwk,
      names: prepared.keyFileNames ?? [],
      tmpDir,
      keepsPaths: runner.keepsPaths === true,
    });
    if (confinement !== undefined && enforced !== undefined) bounds = { limits: confinement.limits, enforced };
    if (confinement !== undefined) egress = await openServerEgress(confinement, tmpDir, fields, options.journal);
    const { sessionId, owner } = options;
    const env = { ...certificates, ...program.env, ...keyFile };
    const launch = { ...program, env, cwd, tmpDir, sessionId, owner, confinement };
    const beforeSpawn = () => options.mayStart(prepared);
    return openProcessChannel(runner, { ...launch, beforeSpawn, egressProxy: egress?.egressProxy });
  };
  const channel = await start().catch(async (error: unknown) => {
    await egress?.close();
    await rm(tmpDir, { recursive: true, force: true });
    const detail = scrubbed(describeCause(error));
    options.journal.record({ ...fields, event: 'start-failed', id: options.callId, detail });
    if (isAmbitError(error)) throw error;
    throw startError(server.name, error, server.command, configuredEnv['PATH'] ?? process.env['PATH']);
  });
  const { pid } = channel;
  slot.markStarted({ ...fields, pid, first: channel.first ?? pid, bounds, startedAt: Date.now() });
  const end = () => {
    slot.markLeaving();
    return channel.end();
  };
  options.watch.spawned(pid);
  const ms = Math.round(performance.now() - started);
  options.journal.record({ ...fields, event: 'started', id: options.callId, pid, ms });

  const unreadable = createRateLimit(unreadablePerSecond);
  let hasGarbled = false;
  let hasSpoken = false;
  /** The reason why the process is ended, where that is its output. */
  let endReason: string | undefined;
  let explanation: string | undefined;
  const lines = readLines(channel.output, {
    maxBytes: options.messageBytes,
    onLine(line) {
      if (endReason !== undefined) return;
      if (holder.listener.onLine(line)) {
        unreadable.refill();
        hasSpoken = true;
        return;
      }
      // Later lines may repeat the arguments of calls, which are kept nowhere.
      if (!hasGarbled) options.watch.garbled(hasSpoken ? undefined : quotePrintedLine(line, scrubbed));
      hasGarbled = true;
      if (!unreadable.admit()) {
        endReason = floodReason;
        options.journal.record({ ...fields, event: 'unreadable-lines', pid });
        channel.output.destroy();
        void end();
      }
    },
    onTooLong: (head, tail) => holder.listener.onTooLong(head, tail),
    onRunaway() {
      endReason ??= endlessLineReason;
      options.journal.record({ ...fields, event: 'endless-line', pid });
      void end();
    },
    onEnd: () => holder.listener.onSilence(),
  });
  const tail = keepStderrTail(channel.diagnostics, settings);
  recordStderr(channel.diagnostics, (text, dropped) =>
    reportStderr(fields, { pid, line: scrubbed(text), dropped }, options),
  );
  void channel.exited.then((left) => {
    const exit = endReason === undefined ? left : { ...left, reason: endReason };
    slot.release();
    void egress?.close();
    options.journal.record({
      ...fields,
      event: 'ended',
      pid,
      code: exit.code ?? undefined,
      signal: exit.signal ?? undefined,
      detail: exit.reason ?? explanation,
    });
    options.watch.ended(pid, exit);
    holder.listener.onExit(exit);
  });

  return {
    pid,
    startedAt: Date.now(),
    contextKey,
    backlog: channel.backlog,
    write: (message) => channel.write(composeLine(message)),
    pause: () => lines.pause(),
    resume: () => lines.resume(),
    async end() {
      await end();
      await egress?.close();
    },
    handOver(listener) {
      holder.listener = listener;
    },
    explainEnd(reason) {
      explanation = reason;
    },
    output: () => ({ lines: tail.lines(), quote: options.sessionId === undefined ? undefined : tail.quote() }),
  };
}

type ProgramStart = Pick<ProcessLaunch, 'command' | 'args' | 'env' | 'npx'>;

/** Fetches the package of a server for a sandbox. An image brings its own programs. */
async function prepareSandboxed(
  { command, args, sandbox }: StdioServer,
  { runners }: ProcessOptions,
  env: Readonly<Record<string, string>>,
): Promise<ProgramStart> {
  return { ...(sandbox.image === undefined ? await runners.packages.ready(command, args) : { command, args }), env };
}

/** Installs the package of a server for a direct session. */
function prepareDirect(
  { command, args }: StdioServer,
  { runners }: ProcessOptions,
  configured: Readonly<Record<string, string>>,
  tmpDir: string,
): Promise<ProgramStart> {
  const more = isPackageRunner(command) ? certificateVariables : [];
  return runners.directPackages.ready({ command, args, env: baseEnvironment(process.env, tmpDir, configured, more) });
}

const floodReason = 'it wrote too many lines to stdout that are not MCP messages; other output belongs on stderr';
const scrubbedBytes = 4096;
const quotedLength = 200;

/** The start of a line that a program has printed. A damaged message is not quoted: it may hold data of a session. */
function quotePrintedLine(line: Buffer, scrub: (text: string) => string): string | undefined {
  const text = line.subarray(0, scrubbedBytes).toString('utf8').trim();
  // A secret that is cut is not recognized, so the text is scrubbed first.
  return /^[{[]/.test(text) ? undefined : toPlainLine(scrub(text)).slice(0, quotedLength);
}

const endlessLineReason = 'it wrote a line to stdout that is too long';

/** Describes an error with its cause, which callers do not see. */
function describeCause(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  return cause === undefined ? String(error) : `${error} (${cause})`;
}

/** Opens the egress proxy of one process; undefined where it may reach nothing. Refusals go to the journal. */
async function openServerEgress(
  { network: allowed = [] }: Pick<Confinement, 'network'>,
  folder: string,
  { server, sessionId }: { readonly server: string; readonly sessionId: string | undefined },
  journal: Pick<Journal, 'record'>,
) {
  if (allowed.length === 0) return undefined;
  const fields = { kind: 'egress' as const, sessionId, server };
  const refusals = createRefusalRecord(({ to, reason, times }) =>
    journal.record({ ...fields, event: 'refused', to, detail: reason, times }),
  );
  const egress = await openEgress({ allowed, folder, onRefused: refusals.add });
  let closed = false;
  return {
    egressProxy: { socket: egress.socket, allowed },
    async close(): Promise<void> {
      if (closed) return;
      closed = true;
      await egress.close();
      refusals.flush();
      const counts = [...egress.allowed];
      const total = counts.reduce((sum, [, times]) => sum + times, 0);
      if (total + refusals.count === 0) return;
      const named = counts.slice(0, maxNamed).map(([to, times]) => `${to} ${times}`);
      const more = counts.length > maxNamed ? ['…'] : [];
      const to = [...named, ...more].join(', ');
      journal.record({ ...fields, event: 'closed', allowed: total, refused: refusals.count, to });
    },
  };
}
