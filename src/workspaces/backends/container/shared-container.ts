import type { FilesContainer } from './files-container.ts';

/** One container for all who use a volume: only there do writes that depend on each other see each other. */
export interface SharedContainer {
  join(): void;
  /** With the last of those who joined it ends. */
  leave(): Promise<void>;
  /** The one that runs, or a new one. */
  reach(): Promise<FilesContainer>;
}

/** `start` is given what to call as soon as the container answers nobody any more. */
export function shareContainer(start: (onFailed: () => void) => Promise<FilesContainer>): SharedContainer {
  let users = 0;
  let current: Promise<FilesContainer> | undefined;
  // Also those that are on their way out.
  const all = new Set<Promise<FilesContainer>>();

  function startNew(): Promise<FilesContainer> {
    const forget = () => {
      if (current === started) current = undefined;
    };
    const started = start(forget);
    all.add(started);
    started.then(
      ({ gone }) => gone.then(() => all.delete(started)),
      () => {
        forget();
        all.delete(started);
      },
    );
    return started;
  }

  return {
    join() {
      users++;
    },
    async leave() {
      if (--users > 0) return;
      current = undefined;
      await Promise.allSettled([...all].map(async (each) => (await each).end()));
    },
    reach() {
      current ??= startNew();
      return current;
    },
  };
}
