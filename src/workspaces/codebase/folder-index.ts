import { isAmbitError } from '../../errors.ts';
import type { WorkspaceBackend } from '../backends/backend.ts';
import { readAhead } from '../search/grep.ts';
import { createIgnoreJudge } from '../search/ignore-rules.ts';
import { createSearchBudget } from '../search/search-budget.ts';
import { walkFiles } from '../search/walk-files.ts';
import type { InBackground } from '../session-files.ts';
import { type EmbeddingProvider, embedPassages, embedQuestion } from './embeddings.ts';
import { type Candidates, type FileMark, type IndexQuery, isInMemory } from './index-database.ts';
import { IndexError, type IndexThread } from './index-thread.ts';
import type { SentFile } from './index-worker.ts';

/** The progress of an index. */
export interface IndexProgress {
  /** `building`: some files are not indexed yet; `unavailable`: there is no index. */
  readonly state: 'ready' | 'building' | 'unavailable';
  /** The number of indexed files. */
  readonly files: number;
  /** The number of files that were found. */
  readonly total: number;
  /** Tells whether files were left out because there are too many. */
  readonly partial: boolean;
}

/** The index of one folder. */
export interface FolderIndex {
  readonly progress: IndexProgress;
  /** True if this process has read all files, so that only later changes may be missing. */
  readonly isCurrent: boolean;
  /** Reads what has changed, in the background. Resolves when everything that changed before the call is indexed. */
  refresh(inBackground: InBackground): Promise<void>;
  /** Records a change by a file tool, which the next search takes into account. */
  noteChange(path: string): void;
  /** Indexes the changes by file tools. */
  applyChanges(inBackground: InBackground): Promise<void>;
  search(query: Omit<IndexQuery, 'vector'>, question: string): Promise<Candidates>;
  close(): Promise<void>;
}

export interface FolderIndexOptions {
  /** The file of the index, or a name that begins with ":memory:". */
  readonly file: string;
  /** Makes the folder of the file. */
  readonly prepareFile: () => void;
  readonly thread: IndexThread;
  readonly embeddings?: EmbeddingProvider | undefined;
  readonly signal: AbortSignal;
  /** Limits how many folders are read at a time. */
  readonly takeTurn: <T>(work: () => Promise<T>) => Promise<T>;
  readonly onFailure: (error: unknown) => void;
  readonly limits?: IndexLimits | undefined;
}

/** The most that one index holds. Other files can still be read and searched with the other tools. */
export interface IndexLimits {
  readonly files: number;
  readonly textBytes: number;
  /** The time after which a search reads the folder again. */
  readonly refreshMs: number;
}

/** Larger files are hardly written by people. */
export const maxIndexedBytes = 1024 * 1024;
const defaultLimits: IndexLimits = { files: 50_000, textBytes: 256 * 1024 * 1024, refreshMs: 1000 };
const walkLimits = { entries: 1_000_000, ms: 120_000 };
/** The files that are sent to the thread at a time: a search has to wait for them. */
const maxBatchFiles = 32;
const maxBatchBytes = 256 * 1024;
const maxNoted = 1000;
/** A folder that takes longer to read is read more seldom, in proportion. */
const longReadMs = 200;

interface FoundFiles {
  readonly files: readonly FileMark[];
  readonly isComplete: boolean;
}

export function createFolderIndex(options: FolderIndexOptions): FolderIndex {
  const { file, prepareFile, thread, embeddings, signal, takeTurn, onFailure, limits = defaultLimits } = options;
  let progress: IndexProgress = { state: 'building', files: 0, total: 0, partial: false };
  let running: Promise<void> | undefined;
  let embedding: Promise<void> | undefined;
  let following: Promise<void> | undefined;
  let pauseUntil = Number.NEGATIVE_INFINITY;
  let needsWalk = false;
  let noted = new Set<string>();
  let isClosed = false;
  /** The run of the thread in which all files were read. */
  let currentIn: number | undefined;
  const isCurrent = () => currentIn !== undefined && currentIn === thread.run;

  async function build(backend: WorkspaceBackend): Promise<void> {
    needsWalk = false;
    prepareFile();
    // The thread is started by the first call, and may end between any two.
    const wasComplete = await thread.call(file, 'isComplete');
    const { run } = thread;
    progress = { ...progress, state: wasComplete ? 'ready' : 'building' };
    const { files, isComplete } = await listFiles(backend, limits, signal);
    const changed = await findChanged(options, files);
    progress = { ...progress, files: files.length - changed.length, total: files.length, partial: !isComplete };
    const isFull = await putFiles(backend, changed);
    const kept = new Set(files.map(({ path }) => path));
    await thread.call(file, 'finish', isComplete ? kept : undefined);
    progress = { ...progress, state: 'ready', partial: !isComplete || isFull };
    currentIn = run;
    while (!isFull && (await thread.call(file, 'clean'))) signal.throwIfAborted();
  }

  /** Reads and indexes files. Returns true if the index is full. */
  function putFiles(backend: Pick<WorkspaceBackend, 'open'>, changed: readonly FileMark[]): Promise<boolean> {
    return sendFiles(options, backend, changed, (count) => {
      progress = { ...progress, files: Math.min(progress.total, progress.files + count) };
    });
  }

  async function applyChange(backend: WorkspaceBackend, path: string): Promise<void> {
    const judge = createIgnoreJudge(backend, '.', createSearchBudget());
    const isLeftOut = isHiddenPath(path) || (await judge.isSkipped(path, false));
    const found = isLeftOut ? undefined : await backend.stat(path).catch(() => undefined);
    if (found?.kind === 'folder') needsWalk = true;
    else if (found?.kind === 'file' && found.path === path && found.bytes <= maxIndexedBytes)
      await putFiles(backend, [{ path, mark: markOf(found) }]);
    else await thread.call(file, 'remove', path);
  }

  function startRefresh(inBackground: InBackground): Promise<void> {
    const started = performance.now();
    return takeTurn(() => inBackground(build))
      .then(() => startEmbedding(inBackground))
      .catch((error: unknown) => {
        if (signal.aborted || isClosed) return;
        // The files are gone or closed with their session; else there is no index here.
        if (!isAmbitError(error)) {
          progress = { ...progress, state: 'unavailable' };
          onFailure(error);
        }
      })
      .finally(() => {
        const now = performance.now();
        // A large folder is not read all the time.
        pauseUntil = now + limits.refreshMs * Math.max(1, (now - started) / longReadMs);
        running = undefined;
      });
  }

  /** Embeds passages without keeping anybody waiting: a provider may take minutes. */
  function startEmbedding(inBackground: InBackground): void {
    if (embeddings === undefined || embedding !== undefined) return;
    embedding = inBackground((backend) => embedPassages(embeddings, { file, thread, backend, signal }))
      .catch((error: unknown) => {
        if (!signal.aborted && !isClosed) onFailure(error);
      })
      .finally(() => {
        embedding = undefined;
      });
  }

  function refresh(inBackground: InBackground): Promise<void> {
    if (isClosed) return Promise.resolve();
    // The running round may have passed a file that has changed since.
    if (running !== undefined) {
      following ??= running.then(() => {
        following = undefined;
        return refresh(inBackground);
      });
      return following;
    }
    if (performance.now() < pauseUntil && !needsWalk && isCurrent()) return Promise.resolve();
    // An index in memory has gone with the thread.
    if (!isCurrent() && isInMemory(file)) progress = { ...progress, state: 'building' };
    running = startRefresh(inBackground);
    return running;
  }

  return {
    get progress() {
      return progress;
    },

    get isCurrent() {
      return isCurrent();
    },

    refresh,

    noteChange(path) {
      if (noted.size < maxNoted) noted.add(path);
      else needsWalk = true;
    },

    async applyChanges(inBackground) {
      if (noted.size === 0) return;
      const paths = [...noted];
      noted = new Set();
      try {
        await inBackground(async (backend) => {
          for (const path of paths) await applyChange(backend, path);
        });
      } catch (error) {
        if (!(error instanceof IndexError)) throw error;
        // The search goes on without the index, or with the files as they are now.
        needsWalk = true;
      }
      if (needsWalk) await refresh(inBackground);
    },

    async search(query, question) {
      const vector = embeddings === undefined ? undefined : await embedQuestion(embeddings, question, onFailure);
      return thread.call(file, 'search', { ...query, vector });
    },

    async close() {
      isClosed = true;
      await Promise.all([running, embedding]);
      await thread.call(file, 'close').catch(() => {});
    },
  };
}

/** The mark of a file. A change that keeps size and time is noticed when the passage is read. */
export function markOf({ bytes, modifiedMs }: { readonly bytes: number; readonly modifiedMs: number }): string {
  return `${bytes}:${modifiedMs}`;
}

/** Tells whether a path has a name that begins with a dot. */
export function isHiddenPath(path: string): boolean {
  return /(?:^|\/)\.(?!\/|$)/.test(path);
}

/** Lists the files of a folder that are neither hidden, ignored, protected nor too large. */
async function listFiles(backend: WorkspaceBackend, limits: IndexLimits, signal: AbortSignal): Promise<FoundFiles> {
  const budget = createSearchBudget(walkLimits, signal);
  const files: FileMark[] = [];
  let bytesLeft = limits.textBytes;
  const enter = (folder: string) => !isHiddenPath(folder);
  for await (const entries of walkFiles(backend, '.', { budget, facts: true, enter })) {
    for (const { path, kind, bytes, modifiedMs, closed, unrepresentable } of entries) {
      if (kind !== 'file' || closed || unrepresentable || isHiddenPath(path)) continue;
      if (bytes === undefined || modifiedMs === undefined || bytes > maxIndexedBytes || bytes === 0) continue;
      bytesLeft -= bytes;
      if (bytesLeft < 0 || files.length >= limits.files) return { files, isComplete: false };
      files.push({ path, mark: markOf({ bytes, modifiedMs }) });
    }
  }
  return { files, isComplete: budget.stopped === undefined };
}

const listPaths = (files: readonly FileMark[]): string[] => files.map(({ path }) => path);

type ThreadedIndex = Pick<FolderIndexOptions, 'file' | 'thread' | 'signal'>;

async function findChanged({ file, thread }: ThreadedIndex, files: readonly FileMark[]): Promise<FileMark[]> {
  const changed: FileMark[] = [];
  for (let at = 0; at < files.length; at += 1000) {
    changed.push(...(await thread.call(file, 'findChanged', files.slice(at, at + 1000))));
  }
  return changed;
}

/** Reads files and sends them to the index, some at a time. Returns true if the index is full. */
async function sendFiles(
  { file, thread, signal }: ThreadedIndex,
  backend: Pick<WorkspaceBackend, 'open'>,
  changed: readonly FileMark[],
  onSent: (count: number) => void,
): Promise<boolean> {
  for (let at = 0; at < changed.length; ) {
    signal.throwIfAborted();
    const batch = await readBatch(backend, changed.slice(at, at + maxBatchFiles));
    try {
      await thread.call(file, 'put', batch);
    } catch (error) {
      if (error instanceof IndexError && error.isFull) return true;
      throw error;
    }
    at += batch.length;
    onSent(batch.length);
  }
  return false;
}

/** Reads the first of these files, up to a size. A file that cannot be read has no text, and is not read again each time. */
async function readBatch(backend: Pick<WorkspaceBackend, 'open'>, next: readonly FileMark[]): Promise<SentFile[]> {
  const read = new Map<string, Uint8Array>();
  let [size, lastPath] = [0, ''];
  for await (const { path, bytes } of readAhead(backend, listPaths(next))) {
    read.set(path, new Uint8Array(bytes));
    size += bytes.length;
    lastPath = path;
    if (size > maxBatchBytes) break;
  }
  const count = size > maxBatchBytes ? next.findIndex(({ path }) => path === lastPath) + 1 : next.length;
  return next.slice(0, count).map((mark) => ({ ...mark, bytes: read.get(mark.path) }));
}
