import type { OneAtATime } from '../lib/async/one-at-a-time.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { tooLargeToWrite } from './backends/refusals.ts';
import type { ResolutionRecorder } from './resolutions.ts';
import { splitIntoNames } from './saferoot/path-components.ts';
import type { WriteLimits, WriteQuota } from './write-quota.ts';

interface SessionFilesParts {
  readonly sessionId: string;
  readonly backend: WorkspaceBackend;
  readonly recorder: ResolutionRecorder;
  readonly quota: WriteQuota;
  readonly limits: WriteLimits & { readonly fileBytes: number };
  readonly runExclusive: OneAtATime;
  /** A prefix that makes paths of this workspace unique. */
  readonly pathPrefix: string;
}

/** The files of one session within its limits, for the tools. */
export interface SessionFiles extends Omit<WorkspaceBackend, 'close' | 'isElsewhere'> {
  /** The largest file that may be written. */
  readonly fileBytes: number;
  /** Runs reads and writes that belong together, one at a time for each path. */
  alone<T>(path: string, work: () => Promise<T>): Promise<T>;
}

/** Wraps a backend for one call of one session, with limits and records. */
export function createSessionFiles(parts: SessionFilesParts): SessionFiles {
  const {
    sessionId,
    backend,
    recorder: resolutions,
    quota: written,
    limits,
    runExclusive: oneAtATime,
    pathPrefix: place,
  } = parts;
  const { fileBytes } = limits;
  const pathOf = ({ path }: { readonly path: string }) => path;

  /** Runs a write within the quota of the session. */
  async function runWithinQuota<T>(
    bytes: number,
    work: () => Promise<T>,
    entriesOf: (result: T) => number,
  ): Promise<T> {
    const reservation = await written.reserve(sessionId, bytes, limits);
    try {
      const result = await work();
      reservation.commit(entriesOf(result));
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
    alone: (path, work) => oneAtATime(place + splitIntoNames(path).join('/'), work),
    stat: (path, options) => resolutions.run('stat', path, () => backend.stat(path, options), pathOf),
    open: (path) =>
      resolutions.run(
        'open',
        path,
        () => backend.open(path),
        ({ facts }) => facts.path,
      ),
    list: (path, options) => resolutions.run('list', path, () => backend.list(path, options), pathOf),

    write: (path, content, options) =>
      resolutions.run(
        'write',
        path,
        async () => {
          if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
          return runWithinQuota(
            content.byteLength,
            () => backend.write(path, content, options),
            ({ folders, created }) => folders + (created ? 1 : 0),
          );
        },
        pathOf,
      ),

    mayWrite: (path, options) => resolutions.run('may-write', path, () => backend.mayWrite(path, options), pathOf),

    makeFolder: (path) =>
      resolutions.run(
        'make-folder',
        path,
        () =>
          runWithinQuota(
            0,
            () => backend.makeFolder(path),
            ({ folders }) => folders,
          ),
        pathOf,
      ),

    remove: (path, options) => resolutions.run('remove', path, () => backend.remove(path, options), pathOf),

    async move(from, to, options) {
      const moving = runWithinQuota(
        0,
        () => backend.move(from, to, options),
        ({ folders }) => folders,
      );
      const records = [
        resolutions.run(
          'move',
          from,
          () => moving,
          (each) => each.from,
        ),
        resolutions.run(
          'move-to',
          to,
          () => moving,
          (each) => each.to,
        ),
      ];
      await Promise.allSettled(records);
      return moving;
    },
  };
}
