import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { counts } from '../proof.ts';
import { taggedProcesses } from '../sandbox/tagged-processes.ts';
import { requestControl } from './request-control.ts';
import { type CreatedSession, type RunningAmbit, startAmbit } from './start-ambit.ts';

export const upstreamProgram = join(import.meta.dirname, 'abandoned/fixtures/upstream.js');
const probe = pathToFileURL(join(import.meta.dirname, 'abandoned/fixtures/heap-probe.js')).href;

/** The memory, sockets and children of the gateway's process after collecting garbage. */
export interface ProcessState {
  readonly heapUsed: number;
  readonly external: number;
  readonly sockets: number;
  readonly children: number;
}

export interface JournalLine {
  readonly kind: string;
  readonly event?: string;
  readonly sessionId?: string;
  readonly server?: string;
  readonly pid?: number;
  readonly signal?: string;
}

/** A real `ambit serve` that can be asked what it still holds; sessions come through its control socket. */
export interface ProbedAmbit extends RunningAmbit {
  open(draft?: { readonly ttlSeconds?: number }): Promise<CreatedSession>;
  end(id: string): Promise<void>;
  /** Leaves the session one second of silence before it expires. */
  shorten(id: string): Promise<void>;
  liveSessions(): Promise<number>;
  held(): Promise<ProcessState>;
  journal(): JournalLine[];
  leftovers(): Leftovers;
}

export interface Leftovers {
  readonly processes: number[];
  readonly tmp: string[];
  readonly run: string[];
}

export async function startProbedAmbit(config: Record<string, unknown>): Promise<ProbedAmbit> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-probe-'));
  const socket = join(folder, 'probe.sock');
  const ambit = await startAmbit(config, probeEnvironment(socket));
  const control = join(ambit.dataDir, 'control.sock');
  return {
    ...ambit,
    open: ambit.session,
    end: async (id) => void (await requestControl(control, 'DELETE', `/api/v1/sessions/${id}`)),
    async shorten(id) {
      await requestControl(control, 'PATCH', `/api/v1/sessions/${id}`, { ttlSeconds: 1 }).catch((error: Error) => {
        // One that has been silent for longer already has expired with the change.
        if (!error.message.includes('SESSION_NOT_FOUND')) throw error;
      });
    },
    async liveSessions() {
      return (await requestControl<{ sessions: unknown[] }>(control, 'GET', '/api/v1/sessions')).sessions.length;
    },
    held: () => askProbe(socket),
    journal: () => readJournal(ambit.dataDir),
    leftovers: () => findLeftovers(ambit.dataDir),
    async stop(signal) {
      rmSync(folder, { recursive: true, force: true });
      return ambit.stop(signal);
    },
  };
}

/** The environment that makes an `ambit` report its state on the socket; its upstreams do not see it. */
export function probeEnvironment(socket: string): NodeJS.ProcessEnv {
  return { NODE_OPTIONS: `--import=${probe}`, AMBIT_TEST_PROBE: socket };
}

export async function askProbe(socket: string): Promise<ProcessState> {
  return JSON.parse(await text(connect(socket))) as ProcessState;
}

export function readJournal(dataDir: string): JournalLine[] {
  const lines = readFileSync(join(dataDir, 'journal', 'journal.jsonl'), 'utf8').split('\n');
  // The last piece may be a line that is just being written.
  return lines.slice(0, -1).map((line) => JSON.parse(line) as JournalLine);
}

/** Finds what upstreams left behind: processes by their TMPDIR, and folders. */
export function findLeftovers(dataDir: string): Leftovers {
  const tmp = listNames(join(dataDir, 'tmp')).flatMap((instance) =>
    listNames(join(dataDir, 'tmp', instance)).filter((name) => name !== 'owner'),
  );
  return { processes: taggedProcesses(`${dataDir}/`), tmp, run: listNames(join(dataDir, 'run')) };
}

function listNames(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    // It may go while we look.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
  }
}

/**
 * How long a wait may take where nothing is promised: nearly all the time the test has. A wait that ends a little
 * before its test says what it waited for, and leaves the test the time to clear up.
 */
export const maxWaitMs = counts(50_000, 1_700_000);

/** Waits for files of processes only; files of a session stay as long as the session. */
export function waitUntilNothingRuns(dataDir: string, limitMs = maxWaitMs): Promise<void> {
  return untilGone(() => ({ ...findLeftovers(dataDir), run: [] }), limitMs);
}

export function waitUntilNothingIsLeft(dataDir: string, limitMs = maxWaitMs): Promise<void> {
  return untilGone(() => findLeftovers(dataDir), limitMs);
}

async function untilGone(look: () => Leftovers, limitMs: number): Promise<void> {
  const began = performance.now();
  for (;;) {
    const left = look();
    if (left.processes.length + left.tmp.length + left.run.length === 0) return;
    if (performance.now() - began > limitMs) throw new Error(`not within ${limitMs} ms: left ${JSON.stringify(left)}`);
    // Looking through all processes costs what others on this machine need.
    await delay(50);
  }
}
