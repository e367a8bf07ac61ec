import type { WorkspaceBackend } from './backend.ts';
import type { OneAtATime } from './one-at-a-time.ts';
import { plainNames } from './plain-names.ts';
import { tooLargeToWrite } from './refusals.ts';
import type { Resolutions } from './resolutions.ts';
import type { SessionFiles } from './session-files.ts';
import type { WriteLimits, WrittenSoFar } from './written-so-far.ts';

export interface SessionFilesParts {
  readonly sessionId: string;
  readonly backend: WorkspaceBackend;
  readonly resolutions: Resolutions;
  readonly written: WrittenSoFar;
  readonly limits: WriteLimits & { readonly fileBytes: number };
  readonly oneAtATime: OneAtATime;
  /** What tells the paths of this workspace from those of any other. */
  readonly place: string;
}

/** A backend as one call of one session sees it: bounded, and told of. */
export function sessionFilesOf(parts: SessionFilesParts): SessionFiles {
  const { sessionId, backend, resolutions, written, limits, oneAtATime, place } = parts;
  const { fileBytes } = limits;
  const pathOf = ({ path }: { readonly path: string }) => path;

  return {
    kind: backend.kind,
    fileBytes,
    candidates: backend.candidates,
    // Links are beyond this; versions guard against those.
    alone: (path, work) => oneAtATime(`${place}\0${plainNames(path).join('/')}`, work),
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
          await written.admit(sessionId, content.byteLength, limits);
          const file = await backend.write(path, content, options);
          written.add(sessionId, content.byteLength, file.folders + (file.created ? 1 : 0));
          return file;
        },
        pathOf,
      ),

    mayWrite: (path, options) => resolutions.of('may-write', path, () => backend.mayWrite(path, options), pathOf),

    makeFolder: (path) =>
      resolutions.of(
        'make-folder',
        path,
        async () => {
          await written.admit(sessionId, 0, limits);
          const made = await backend.makeFolder(path);
          written.add(sessionId, 0, made.folders);
          return made;
        },
        pathOf,
      ),

    remove: (path, options) => resolutions.of('remove', path, () => backend.remove(path, options), pathOf),

    async move(from, to, options) {
      await written.admit(sessionId, 0, limits);
      const moved = await resolutions.of(
        'move',
        from,
        () => backend.move(from, to, options),
        (each) => each.from,
      );
      await resolutions.of(
        'move-to',
        to,
        async () => moved,
        (each) => each.to,
      );
      written.add(sessionId, 0, moved.folders);
      return moved;
    },
  };
}
