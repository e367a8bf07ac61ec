import { rmSync } from 'node:fs';
import { parentPort } from 'node:worker_threads';
import { openDatabase } from '../../stores/sqlite/driver.ts';
import { decodeText } from '../search/grep.ts';
import { type FileMark, type IndexDatabase, isInMemory, openIndexDatabase } from './index-database.ts';

/** A file as it is sent to the thread; without bytes if it cannot be read. */
export interface SentFile extends FileMark {
  readonly bytes: Uint8Array | undefined;
}

/** The methods of an index, as they are called from the main thread. */
export type IndexMethods = Omit<IndexDatabase, 'put'> & { put(files: readonly SentFile[]): void };

/** A call to the index in this file. Names that begin with ":memory:" are indexes in memory. */
export interface IndexRequest {
  readonly number: number;
  readonly file: string;
  readonly maxBytes: number;
  readonly method: keyof IndexMethods;
  readonly args: readonly unknown[];
}

/** Ends the thread after the calls before it. */
export type EndRequest = 'end';

/** The answer to a call. */
export interface IndexReply {
  readonly number: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string; readonly isFull: boolean };
}

/**
 * This program runs the indexes in a thread of its own: splitting texts and SQLite would stop all other work. It opens
 * no file of a workspace; the main thread reads them, within the rules of the workspace.
 */
const indexes = new Map<string, IndexMethods>();

function openIndex(file: string, maxBytes: number): IndexMethods {
  const database = openIndexDatabase(openDatabase(isInMemory(file) ? ':memory:' : file), maxBytes);
  return {
    ...database,
    put: (files) =>
      database.put(
        files.map(({ path, mark, bytes }) => ({
          path,
          mark,
          text: bytes === undefined ? undefined : decodeText(bytes)?.text,
        })),
      ),
    close() {
      indexes.delete(file);
      database.close();
    },
  };
}

function runMethod({ file, maxBytes, method, args }: IndexRequest): unknown {
  if (method === 'close' && !indexes.has(file)) return undefined;
  const index = indexes.get(file) ?? openIndex(file, maxBytes);
  if (method !== 'close') indexes.set(file, index);
  return (index[method] as (...values: readonly unknown[]) => unknown)(...args);
}

/** Runs a call. An index that is damaged is made anew: nothing in it is lost. */
function runSafely(request: IndexRequest): unknown {
  try {
    return runMethod(request);
  } catch (error) {
    if (!isDamaged(error)) throw error;
    closeQuietly(request.file);
    for (const ending of ['', '-wal', '-shm']) rmSync(request.file + ending, { force: true });
    return runMethod(request);
  }
}

function closeQuietly(file: string): void {
  try {
    indexes.get(file)?.close();
  } catch {
    indexes.delete(file);
  }
}

/** Tells whether SQLite says that the file is damaged or not a database. */
function isDamaged(error: unknown): boolean {
  return primaryCode(error) === 11 || primaryCode(error) === 26;
}

const codeNames: Readonly<Record<string, number>> = { SQLITE_CORRUPT: 11, SQLITE_FULL: 13, SQLITE_NOTADB: 26 };

function primaryCode(error: unknown): number | undefined {
  const { code, errcode } = error as { readonly code?: unknown; readonly errcode?: unknown };
  return typeof errcode === 'number' ? errcode & 0xff : codeNames[String(code).replace(/(?<=CORRUPT)_.*/, '')];
}

parentPort?.on('message', (request: IndexRequest | EndRequest) => {
  if (request === 'end') {
    for (const file of indexes.keys()) closeQuietly(file);
    parentPort?.close();
    return;
  }
  const { number } = request;
  try {
    parentPort?.postMessage({ number, result: runSafely(request) } satisfies IndexReply);
  } catch (error) {
    const { message } = error instanceof Error ? error : new Error(String(error));
    parentPort?.postMessage({
      number,
      error: { message, isFull: primaryCode(error) === 13 },
    } satisfies IndexReply);
  }
});
