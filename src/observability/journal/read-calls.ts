import { open } from 'node:fs/promises';
import type { CallEntry } from './journal.ts';

/** An exchange as the journal recorded it. */
export interface RecordedCall
  extends Pick<CallEntry, 'server' | 'method' | 'outcome'>,
    // Streams, batches and the end of a transport session are recorded without these.
    Partial<Pick<CallEntry, 'id' | 'ms' | 'bytesIn' | 'bytesOut'>> {
  readonly at: string;
  readonly name?: string;
  readonly rule?: string;
  readonly entrance: 'http' | 'stdio';
  readonly era: 'modern' | 'handshake';
  readonly workspaceId?: string;
  readonly cached?: string;
  readonly traceId?: string;
}

export interface CallsPage {
  readonly calls: readonly RecordedCall[];
  /** The cursor for older calls; null if there are none left. A page may be empty and not the last. */
  readonly next: string | null;
}

export interface CallsQuery {
  readonly limit: number;
  /** `next` of the previous page. */
  readonly before?: string | undefined;
}

const callFields = [
  ...['id', 'server', 'method', 'name', 'outcome', 'rule', 'entrance', 'era', 'workspaceId', 'cached', 'traceId'],
  ...['ms', 'bytesIn', 'bytesOut'],
];
const pieceBytes = 65_536;
/** Limit of bytes that are searched for one page: a journal may be very large. */
const maxPageBytes = 16 << 20;
/** No entry is so long; a file with a longer line is not one of ours. */
const maxLineBytes = 1 << 20;
const newLine = 10;

/** Reads the calls of a session, newest first, from the end of the file. */
export async function readCalls(
  file: string,
  sessionId: string,
  { limit, before }: CallsQuery,
  limitBytes = maxPageBytes,
): Promise<CallsPage> {
  const handle = await open(file, 'r');
  try {
    const { size } = await handle.stat();
    let end = Math.min(before === undefined ? size : Number(before), size);
    const stop = Math.max(0, end - limitBytes);
    // Lines are compared as bytes: those of one session are few, and only they are parsed.
    const mark = Buffer.from(`"sessionId":${JSON.stringify(sessionId)}`);
    const calls: RecordedCall[] = [];
    let rest: Buffer = Buffer.alloc(0);
    while (end > stop) {
      const from = Math.max(stop, end - pieceBytes);
      const piece = Buffer.alloc(end - from);
      const { bytesRead } = await handle.read(piece, 0, piece.length, from);
      if (bytesRead < piece.length) break;
      const text = Buffer.concat([piece, rest]);
      let lineEnd = text.length;
      // The start of a line is known once the end of the previous line, or the start of the file, is seen.
      for (;;) {
        const cut = lineEnd === 0 ? -1 : text.lastIndexOf(newLine, lineEnd - 1);
        if (cut === -1 && from > 0) break;
        const call = parseCall(text.subarray(cut + 1, lineEnd), mark, sessionId);
        if (call !== undefined) calls.push(call);
        if (calls.length === limit) return { calls, next: createCursor(from + cut + 1) };
        if (cut === -1) break;
        lineEnd = cut;
      }
      rest = from === 0 || lineEnd > maxLineBytes ? Buffer.alloc(0) : Buffer.from(text.subarray(0, lineEnd));
      end = from;
    }
    return { calls, next: createCursor(end + rest.length) };
  } finally {
    await handle.close();
  }
}

/** Creates the cursor of a position. Everything before it is still to be searched. */
function createCursor(offset: number): string | null {
  return offset === 0 ? null : String(offset);
}

function parseCall(line: Buffer, mark: Buffer, sessionId: string): RecordedCall | undefined {
  if (line.indexOf(mark) === -1) return undefined;
  try {
    const entry = JSON.parse(line.toString('utf8')) as Readonly<Record<string, unknown>>;
    if (entry['kind'] !== 'call' || entry['sessionId'] !== sessionId) return undefined;
    const fields = callFields.filter((name) => entry[name] !== undefined).map((name) => [name, entry[name]]);
    return { at: entry['time'], ...Object.fromEntries(fields) } as RecordedCall;
  } catch {
    // The line was cut off by a crash.
    return undefined;
  }
}
