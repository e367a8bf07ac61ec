import { isAmbitError } from '../errors.ts';
import { toPlainLine } from '../lib/text/escape-controls.ts';
import { scrubSecrets } from '../observability/log/scrub.ts';
import type { TrustLevel } from '../rules/trust-level.ts';
import { nameTransport, type ServerDefinition, type Transport } from '../upstreams/definition.ts';
import type { Approvals } from '../upstreams/pins/approvals.ts';
import { hideSecrets } from '../upstreams/pins/show-server.ts';

/** A line that a process of a server wrote to stderr, without secrets and control characters. */
export interface ServerLogLine {
  /** The position of the line in the log of its server, from 1 on. */
  readonly number: number;
  readonly at: number;
  /** Undefined where several sessions share the process. */
  readonly sessionId: string | undefined;
  readonly pid: number | undefined;
  readonly text: string;
}

/** The last lines that each server wrote to stderr, in memory. */
export interface ServerLogs {
  add(server: string, line: Omit<ServerLogLine, 'number' | 'at'>): void;
  /** Lists the lines that are still there, the oldest first. */
  list(server: string): readonly ServerLogLine[];
  /** Finds the line after this position; `dropped` lines before it are gone. Undefined if there is none yet. */
  next(server: string, after: number): { readonly line: ServerLogLine; readonly dropped: number } | undefined;
  /** The position of the last line; 0 if there is none. */
  last(server: string): number;
  /** Calls the listener after each line of a server. Returns a function that stops this. */
  onLine(server: string, listener: () => void): () => void;
}

/** The bounds of all logs together: 64 servers with 1,000 lines or 256 KiB each. */
const defaultBounds = { servers: 64, lines: 1000, bytes: 256 * 1024 };
/** The assumed size of a line beside its text. */
const lineOverhead = 100;

interface LogBuffer {
  lines: ServerLogLine[];
  /** The index of the oldest line that counts. */
  start: number;
  bytes: number;
  last: number;
  readonly listeners: Set<() => void>;
}

export function createServerLogs(bounds = defaultBounds): ServerLogs {
  /** In the order of their last line. */
  const buffers = new Map<string, LogBuffer>();

  function openBuffer(server: string): LogBuffer {
    const known = buffers.get(server);
    if (known !== undefined) return known;
    const fresh: LogBuffer = { lines: [], start: 0, bytes: 0, last: 0, listeners: new Set() };
    buffers.set(server, fresh);
    // A log that somebody reads stays. The number of readers has its own limit.
    const unread = [...buffers].filter(([name, { listeners }]) => listeners.size === 0 && name !== server);
    if (buffers.size > bounds.servers && unread[0] !== undefined) buffers.delete(unread[0][0]);
    return fresh;
  }

  function dropOldest(buffer: LogBuffer): void {
    while (buffer.lines.length - buffer.start > bounds.lines || buffer.bytes > bounds.bytes) {
      buffer.bytes -= sizeOf(buffer.lines[buffer.start] as ServerLogLine);
      buffer.start++;
    }
    // Moving the lines with each new one would take long. Dropped lines must not outweigh the others: they take memory.
    if (buffer.start * 2 < buffer.lines.length) return;
    buffer.lines = buffer.lines.slice(buffer.start);
    buffer.start = 0;
  }

  return {
    add(server, line) {
      const buffer = openBuffer(server);
      buffers.delete(server);
      buffers.set(server, buffer);
      const added = { ...line, number: ++buffer.last, at: Date.now() };
      buffer.lines.push(added);
      buffer.bytes += sizeOf(added);
      dropOldest(buffer);
      for (const listener of buffer.listeners) listener();
    },
    list(server) {
      const { lines = [], start = 0 } = buffers.get(server) ?? {};
      return lines.slice(start);
    },
    next(server, after) {
      const buffer = buffers.get(server);
      const oldest = buffer?.lines[buffer.start];
      if (buffer === undefined || oldest === undefined || after >= buffer.last) return undefined;
      const number = Math.max(after + 1, oldest.number);
      const line = buffer.lines[buffer.start + number - oldest.number] as ServerLogLine;
      return { line, dropped: number - after - 1 };
    },
    last: (server) => buffers.get(server)?.last ?? 0,
    onLine(server, listener) {
      const buffer = openBuffer(server);
      buffer.listeners.add(listener);
      return () => {
        buffer.listeners.delete(listener);
        if (buffer.listeners.size === 0 && buffer.last === 0) buffers.delete(server);
      };
    },
  };
}

function sizeOf({ text }: ServerLogLine): number {
  return text.length + lineOverhead;
}

/** The last failure of a server. */
export interface ServerFailure {
  readonly at: number;
  readonly message: string;
}

/** Records how the servers of a gateway do: processes, failures, and the lines they write. */
export interface ServerActivity {
  readonly logs: ServerLogs;
  spawned(server: string): void;
  ended(server: string): void;
  /** The server has answered: an earlier failure is over. */
  answered(server: string): void;
  /** The server did not start, was lost, or could not be reached. */
  failed(server: string, error: unknown): void;
  /** A client and the server have agreed on the handshake era. */
  shookHands(server: string): void;
  /** The server has another definition now, so what is known about the old one no longer holds. */
  redefined(server: string): void;
  get(server: string): ServerRecord | undefined;
  processCount(): number;
}

interface ServerRecord {
  processes: number;
  hasAnswered: boolean;
  /** True from a failure until the next answer. */
  isFailing: boolean;
  lastError: ServerFailure | undefined;
  era: 'handshake' | undefined;
}

const maxRecords = 1024;
const maxMessageLength = 300;

export function createServerActivity(logs = createServerLogs()): ServerActivity {
  const records = new Map<string, ServerRecord>();

  function open(server: string): ServerRecord {
    const known = records.get(server);
    if (known !== undefined) return known;
    const fresh = newRecord();
    records.set(server, fresh);
    // Names of servers that a reload removed are forgotten.
    const idle = [...records].find(([name, { processes }]) => processes === 0 && name !== server);
    if (records.size > maxRecords && idle !== undefined) records.delete(idle[0]);
    return fresh;
  }

  return {
    logs,
    spawned(server) {
      open(server).processes++;
    },
    ended(server) {
      open(server).processes--;
    },
    answered(server) {
      const record = open(server);
      record.hasAnswered = true;
      record.isFailing = false;
    },
    failed(server, error) {
      const record = open(server);
      record.isFailing = true;
      record.lastError = { at: Date.now(), message: describeFailure(error) };
    },
    shookHands(server) {
      open(server).era = 'handshake';
    },
    redefined(server) {
      const { processes = 0 } = records.get(server) ?? {};
      if (processes === 0) records.delete(server);
      else Object.assign(open(server), { ...newRecord(), processes });
    },
    get: (server) => records.get(server),
    processCount: () => [...records.values()].reduce((sum, { processes }) => sum + processes, 0),
  };
}

function newRecord(): ServerRecord {
  return { processes: 0, hasAnswered: false, isFailing: false, lastError: undefined, era: undefined };
}

/** An error in one line without secrets. */
function describeFailure(error: unknown): string {
  const text = isAmbitError(error) ? error.message : String(error);
  const plain = toPlainLine(scrubSecrets(text));
  return plain.length <= maxMessageLength
    ? plain
    : `${plain.slice(0, maxMessageLength - 1).replace(/\p{Surrogate}/gu, '')}…`;
}

export const serverStates = ['running', 'idle', 'reachable', 'unreachable', 'failed', 'unapproved'] as const;
export type ServerState = (typeof serverStates)[number];

/** A server as the operator sees it. The state, the processes and the last error are known to a running gateway only. */
export interface ServerOverview {
  readonly name: string;
  readonly source: ServerDefinition['source'];
  readonly file: string | null;
  readonly transport: Transport;
  readonly trust: readonly TrustLevel[];
  /** The era that the server speaks; null while that is unknown. */
  readonly era: 'modern' | 'handshake' | null;
  readonly approval: 'not needed' | 'approved' | 'changed' | 'exposed' | 'unapproved';
  /** The differences between the server and its approval. */
  readonly changes: readonly string[];
  /** Null where the reader may not see it: the hash has no key, so short arguments and values can be guessed with it. */
  readonly definitionHash: string | null;
  readonly state: ServerState | null;
  readonly processes: number | null;
  readonly lastError: { readonly at: string; readonly message: string } | null;
}

interface LiveServers {
  readonly activity: ServerActivity;
  readonly eraOf: (server: string) => 'modern' | 'handshake' | undefined;
  readonly usesSse: (server: string) => boolean;
}

/** Describes the servers of a configuration; without `live`, as far as files tell. */
export async function describeServers(
  servers: Iterable<ServerDefinition>,
  approvals: Pick<Approvals, 'checkInPieces'>,
  live?: LiveServers,
  signal?: AbortSignal,
): Promise<ServerOverview[]> {
  const described = [...servers].map(async (server): Promise<ServerOverview> => {
    const verdict = await approvals.checkInPieces(server, signal);
    const record = live?.activity.get(server.name);
    const configuredEra = server.era === 'auto' ? undefined : server.era;
    const { lastError } = record ?? {};
    return {
      name: server.name,
      source: server.source,
      file: server.file ?? null,
      transport: nameTransport(server, live?.usesSse(server.name)),
      trust: server.trust,
      era: configuredEra ?? live?.eraOf(server.name) ?? record?.era ?? null,
      approval: server.source === 'operator' ? 'not needed' : verdict.state,
      changes: verdict.state === 'approved' ? [] : verdict.changes.map(({ line }) => hideSecrets(line)),
      definitionHash: server.definitionHash,
      state: live === undefined ? null : verdict.state === 'approved' ? judgeState(server, record) : 'unapproved',
      processes: live === undefined ? null : (record?.processes ?? 0),
      lastError: lastError === undefined ? null : { ...lastError, at: new Date(lastError.at).toISOString() },
    };
  });
  return Promise.all(described);
}

function judgeState({ kind }: ServerDefinition, record: ServerRecord | undefined): ServerState {
  if (record === undefined) return 'idle';
  if (kind === 'http') return record.isFailing ? 'unreachable' : record.hasAnswered ? 'reachable' : 'idle';
  if (record.processes > 0) return 'running';
  return record.isFailing ? 'failed' : 'idle';
}
