import type { KeyedMutex } from '../lib/async/mutex.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { tooLargeError } from './backends/refusals.ts';
import type { ResolutionRecorder } from './resolutions.ts';
import type { ResolvedPath } from './saferoot/file-info.ts';
import { splitIntoNames } from './saferoot/walk-path.ts';
import type { WriteLimits, WriteQuota } from './write-quota.ts';

/** Runs work on the files of a workspace, also after the call that began it is over. */
export type InBackground = <T>(work: (backend: WorkspaceBackend) => Promise<T>) => Promise<T>;

/** The folder of some files and the rules for it, for everything that is kept about them. */
export interface FilePlace {
  /** Equal for the same folder with the same rules. */
  readonly key: string;
  /** The folder on this machine, if there is one. */
  readonly folder: string | undefined;
  readonly inBackground: InBackground;
}

interface SessionFilesParts {
  readonly sessionId: string;
  readonly place: FilePlace;
  /** Called with the path of each file or folder that was written, moved or removed. */
  readonly onChange: (place: FilePlace, path: string) => void;
  readonly backend: WorkspaceBackend;
  readonly recorder: ResolutionRecorder;
  readonly quota: WriteQuota;
  readonly limits: WriteLimits & { readonly fileBytes: number };
  readonly runExclusive: KeyedMutex;
  /** A prefix that makes paths of this workspace unique. */
  readonly pathPrefix: string;
}

interface MadeEntries {
  readonly folders: number;
  readonly created?: boolean;
}

/** The files of one session within its limits, for the tools. */
export interface SessionFiles extends Omit<WorkspaceBackend, 'close' | 'isElsewhere'> {
  readonly fileBytes: number;
  readonly place: FilePlace;
  /** Runs reads and writes that belong together, one at a time for each path. */
  runExclusive<T>(path: string, work: () => Promise<T>): Promise<T>;
}

/** Wraps a backend for one call of one session, with limits and records. */
export function createSessionFiles(parts: SessionFilesParts): SessionFiles {
  const { sessionId, backend, recorder, quota, limits, runExclusive, pathPrefix, place, onChange } = parts;
  const { fileBytes } = limits;

  /** Runs and records an operation whose result has the resolved path. */
  function runAt<T extends ResolvedPath>(operation: string, asked: string, work: () => Promise<T>): Promise<T> {
    return recorder.run(operation, asked, work, ({ path }) => path);
  }

  /** Runs a write within the quota of the session. */
  async function runWithinQuota<T extends MadeEntries>(bytes: number, work: () => Promise<T>): Promise<T> {
    const reservation = await quota.reserve(sessionId, bytes, limits);
    try {
      const result = await work();
      reservation.commit(result.folders + (result.created ? 1 : 0));
      return result;
    } finally {
      reservation.release();
    }
  }

  /** Runs a change, and tells about it. */
  async function runChange<T extends ResolvedPath>(
    operation: string,
    asked: string,
    work: () => Promise<T>,
  ): Promise<T> {
    const result = await runAt(operation, asked, work);
    onChange(place, result.path);
    return result;
  }

  return {
    kind: backend.kind,
    fileBytes,
    place,
    candidates: backend.candidates,
    // Links can give a file other names; versions guard against those.
    runExclusive: (path, work) => runExclusive(pathPrefix + splitIntoNames(path).join('/'), work),
    stat: (path, options) => runAt('stat', path, () => backend.stat(path, options)),
    open(path) {
      const work = () => backend.open(path);
      return recorder.run('open', path, work, ({ facts }) => facts.path);
    },
    list: (path, options) => runAt('list', path, () => backend.list(path, options)),
    write: (path, content, options) =>
      runChange('write', path, async () => {
        if (content.byteLength > fileBytes) throw tooLargeError(content.byteLength, fileBytes);
        return runWithinQuota(content.byteLength, () => backend.write(path, content, options));
      }),
    mayWrite: (path, options) => runAt('may-write', path, () => backend.mayWrite(path, options)),
    makeFolder: (path) => runAt('make-folder', path, () => runWithinQuota(0, () => backend.makeFolder(path))),
    remove: (path, options) => runChange('remove', path, () => backend.remove(path, options)),

    async move(from, to, options) {
      const moving = runWithinQuota(0, () => backend.move(from, to, options));
      const work = () => moving;
      await Promise.allSettled([
        recorder.run('move', from, work, (moved) => moved.from),
        recorder.run('move-to', to, work, (moved) => moved.to),
      ]);
      const moved = await moving;
      onChange(place, moved.from);
      onChange(place, moved.to);
      return moved;
    },
  };
}
