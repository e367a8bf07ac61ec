import type { OneAtATime } from '../lib/async/one-at-a-time.ts';
import type { WorkspaceBackend } from './backends/backend.ts';
import { tooLargeToWrite } from './backends/refusals.ts';
import type { Resolutions } from './resolutions.ts';
import { plainNames } from './saferoot/path-components.ts';
import type { WriteLimits, WrittenSoFar } from './write-quota.ts';

interface SessionFilesParts {
  readonly sessionId: string;
  readonly backend: WorkspaceBackend;
  readonly resolutions: Resolutions;
  readonly written: WrittenSoFar;
  readonly limits: WriteLimits & { readonly fileBytes: number };
  readonly oneAtATime: OneAtATime;
  /** What goes before a path of this workspace, so that no other file is called the same. */
  readonly place: string;
}

/** The files of one session, within its bounds: what a tool works on. */
export interface SessionFiles extends Omit<WorkspaceBackend, 'close' | 'isElsewhere'> {
  /** The largest file that may be written. */
  readonly fileBytes: number;
  /** Reads and writes that belong together, one after the other for each path. */
  alone<T>(path: string, work: () => Promise<T>): Promise<T>;
}

/** A backend as one call of one session sees it: bounded, and told of. */
export function sessionFilesOf(parts: SessionFilesParts): SessionFiles {
  const { sessionId, backend, resolutions, written, limits, oneAtATime, place } = parts;
  const { fileBytes } = limits;
  const pathOf = ({ path }: { readonly path: string }) => path;

  /** Does it within what the session may still write. */
  async function within<T>(bytes: number, work: () => Promise<T>, entriesOf: (result: T) => number): Promise<T> {
    const held = await written.hold(sessionId, bytes, limits);
    try {
      const result = await work();
      held.written(entriesOf(result));
      return result;
    } finally {
      held.release();
    }
  }

  return {
    kind: backend.kind,
    fileBytes,
    candidates: backend.candidates,
    // Links are beyond this; versions guard against those.
    alone: (path, work) => oneAtATime(place + plainNames(path).join('/'), work),
    stat: (path, options) => resolutions.of('stat', path, () => backend.stat(path, options), pathOf),
    open: (path) =>
      resolutions.of(
        'open',
        path,
        () => backend.open(path),
        ({ facts }) => facts.path,
      ),
    list: (path, options) => resolutions.of('list', path, () => backend.list(path, options), pathOf),

    write: (path, content, options) =>
      resolutions.of(
        'write',
        path,
        async () => {
          if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
          return within(
            content.byteLength,
            () => backend.write(path, content, options),
            ({ folders, created }) => folders + (created ? 1 : 0),
          );
        },
        pathOf,
      ),

    mayWrite: (path, options) => resolutions.of('may-write', path, () => backend.mayWrite(path, options), pathOf),

    makeFolder: (path) =>
      resolutions.of(
        'make-folder',
        path,
        () =>
          within(
            0,
            () => backend.makeFolder(path),
            ({ folders }) => folders,
          ),
        pathOf,
      ),

    remove: (path, options) => resolutions.of('remove', path, () => backend.remove(path, options), pathOf),

    async move(from, to, options) {
      const moving = within(
        0,
        () => backend.move(from, to, options),
        ({ folders }) => folders,
      );
      const told = [
        resolutions.of(
          'move',
          from,
          () => moving,
          (each) => each.from,
        ),
        resolutions.of(
          'move-to',
          to,
          () => moving,
          (each) => each.to,
        ),
      ];
      await Promise.allSettled(told);
      return moving;
    },
  };
}
