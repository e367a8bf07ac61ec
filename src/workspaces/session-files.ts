import type { KeyedMutex } from '../lib/async/mutex.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { tooLargeError } from './backends/refusals.ts';
import type { ResolutionRecorder } from './resolutions.ts';
import type { ResolvedPath } from './saferoot/file-info.ts';
import { splitIntoNames } from './saferoot/path-components.ts';
import type { WriteLimits, WriteQuota } from './write-quota.ts';

interface SessionFilesParts {
  readonly sessionId: string;
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
  /** Runs reads and writes that belong together, one at a time for each path. */
  runExclusive<T>(path: string, work: () => Promise<T>): Promise<T>;
}

/** Wraps a backend for one call of one session, with limits and records. */
export function createSessionFiles(parts: SessionFilesParts): SessionFiles {
  const { sessionId, backend, recorder, quota, limits, runExclusive, pathPrefix } = parts;
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

  return {
    kind: backend.kind,
    fileBytes,
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
      runAt('write', path, async () => {
        if (content.byteLength > fileBytes) throw tooLargeError(content.byteLength, fileBytes);
        return runWithinQuota(content.byteLength, () => backend.write(path, content, options));
      }),
    mayWrite: (path, options) => runAt('may-write', path, () => backend.mayWrite(path, options)),
    makeFolder: (path) => runAt('make-folder', path, () => runWithinQuota(0, () => backend.makeFolder(path))),
    remove: (path, options) => runAt('remove', path, () => backend.remove(path, options)),

    async move(from, to, options) {
      const moving = runWithinQuota(0, () => backend.move(from, to, options));
      const work = () => moving;
      await Promise.allSettled([
        recorder.run('move', from, work, (moved) => moved.from),
        recorder.run('move-to', to, work, (moved) => moved.to),
      ]);
      return moving;
    },
  };
}
