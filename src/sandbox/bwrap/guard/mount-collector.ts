import { redactBytes, redactionFor } from '../../../lib/redact/redact-settings.ts';
import { escapeControls } from '../../../lib/text/escape-controls.ts';
import { unavailable } from '../../common/sandbox-errors.ts';
import { lookWithin, type Pinned, pinWithin, readPinned, release } from '../pinned-path.ts';
import { giveUpNames, type Placeholder, takeName } from './placeholders.ts';
import type { ShowCopy } from './protect-config-files.ts';
import { type GuardSpot, spotOf } from './watch-mount-points.ts';

export interface Guarded {
  /** Held in place, so that it cannot be moved away together with what is read-only in it. */
  readonly kept: readonly Pinned[];
  readonly readOnly: readonly Pinned[];
}

export interface Collected extends Guarded {
  /** Where all of them are mounted. */
  readonly spots: readonly GuardSpot[];
  readonly placeholders: readonly Placeholder[];
}

export interface Collector {
  /**
   * What has this name in a folder becomes read-only, without credentials where it has some; undefined when nothing has.
   * Settings may be known by other names than their own.
   */
  readOnly(folder: Pinned, name: string, known?: readonly string[]): Pinned | undefined;
  /** A file of settings is shown without its credentials; one without any is left alone. */
  hideCredentials(folder: Pinned, name: string, known?: readonly string[]): void;
  /** Whether that would change what is seen. */
  hasCredentials(folder: Pinned, name: string): boolean;
  /** What has this name stays where it is. */
  keep(folder: Pinned, name: string): Pinned | undefined;
  /** Read-only, although nothing may have the name. */
  occupy(folder: Pinned, name: string, content?: string): Pinned | undefined;
  /** An empty file is seen in place of a socket: whoever listens there is outside, and no sandbox confines it. */
  cover(folder: Pinned, path: string): void;
  /** A link stays as it is: nothing can be mounted upon it, so that it is replaced is at least noticed. */
  watch(folder: Pinned, name: string): void;
  /** Told of each thing that is looked at. Throws when it is too many. */
  countLook(): void;
  collected(): Collected;
  release(): void;
}

/** A larger one is no file of settings: it would take long to search it for credentials. */
const largestSettings = 256 * 1024;
/** For all of a folder: each mount takes descriptors and arguments, and each search takes time. */
const most = { mounts: 2000, placeholders: 500, looks: 20_000, searched: 16 * 1024 * 1024 };

/** Gathers what is to be mounted, each once. */
export function createCollector(top: Pinned, showCopy: ShowCopy): Collector {
  const kept = new Map<string, Pinned>();
  const shown = new Map<string, Pinned>();
  const placeholders: Placeholder[] = [];
  const spots: GuardSpot[] = [];
  const left = { ...most };

  function spend(what: keyof typeof most, count: number, inside: string): void {
    left[what] -= count;
    if (left[what] < 0) throw tooMuch(what, inside === '' ? '' : inside.slice(top.inside.length + 1));
  }

  /** What is to be seen in place of a file; undefined where that is the file itself. */
  function contentShown(file: Pinned, known?: readonly string[]): Buffer | undefined {
    if (!file.stats.isFile()) return undefined;
    const own = redactionFor(file.inside.slice(top.inside.length + 1).split('/'));
    const redact = own ?? (known && redactionFor(known));
    if (redact === undefined) return undefined;
    // One that is too large to be settings is shown as an empty one; one that cannot be read cannot be read inside.
    if (file.stats.size > largestSettings) return Buffer.alloc(0);
    spend('searched', file.stats.size, file.inside);
    try {
      const content = readPinned(file);
      const plain = redactBytes(content, redact);
      return plain.equals(content) ? undefined : plain;
    } catch (error) {
      // What another program holds may hold credentials; what we may not read, nobody inside may.
      const isHeld = (error as NodeJS.ErrnoException).code === 'EAGAIN';
      return isHeld ? Buffer.alloc(0) : undefined;
    }
  }

  function copyOf(file: Pinned, known?: readonly string[]): Pinned | undefined {
    const content = contentShown(file, known);
    return content && showCopy(content, file.inside);
  }

  function show(
    folder: Pinned,
    name: string,
    isShownAnyway: boolean,
    settings?: readonly string[],
  ): Pinned | undefined {
    const known = shown.get(`${folder.inside}/${name}`);
    if (known !== undefined) return known;
    const found = pinWithin(folder, name);
    if (found === undefined) return undefined;
    let seen: Pinned | undefined;
    try {
      seen = copyOf(found, settings) ?? (isShownAnyway ? found : undefined);
      if (seen === undefined) return undefined;
      shown.set(seen.inside, seen);
      spots.push(spotOf(found));
      spend('mounts', 1, seen.inside);
      return seen;
    } finally {
      if (seen !== found) release([found]);
    }
  }

  return {
    readOnly: (folder, name, known) => show(folder, name, true, known),
    hideCredentials: (folder, name, known) => void show(folder, name, false, known),
    hasCredentials(folder, name) {
      const found = pinWithin(folder, name);
      if (found === undefined) return false;
      try {
        return contentShown(found) !== undefined;
      } finally {
        release([found]);
      }
    },
    keep(folder, name) {
      const known = kept.get(`${folder.inside}/${name}`);
      if (known !== undefined) return known;
      const found = pinWithin(folder, name);
      if (found === undefined) return undefined;
      kept.set(found.inside, found);
      spots.push(spotOf(found));
      spend('mounts', 1, found.inside);
      return found;
    },
    occupy(folder, name, content) {
      const placeholder = takeName(folder, name, content);
      if (placeholder !== undefined) placeholders.push(placeholder);
      spend('placeholders', 1, `${folder.inside}/${name}`);
      return show(folder, name, true);
    },
    cover(folder, path) {
      const stats = lookWithin(folder, path);
      const inside = `${folder.inside}/${path}`;
      if (!stats?.isSocket() || shown.has(inside)) return;
      shown.set(inside, showCopy(Buffer.alloc(0), inside));
      spend('mounts', 1, inside);
      spots.push(spotOf({ real: `${folder.real}/${path}`, stats }));
    },
    watch(folder, name) {
      const stats = lookWithin(folder, name);
      if (stats !== undefined) spots.push(spotOf({ real: `${folder.real}/${name}`, stats }));
    },
    countLook: () => spend('looks', 1, ''),
    collected() {
      // What is held in place can be written. In what is read-only as a whole nothing has to be held, and nothing can move.
      const needless = [...kept.values()].filter(({ inside }) => liesIn(inside, shown));
      for (const { inside } of needless) kept.delete(inside);
      release(needless);
      return { kept: [...kept.values()], readOnly: [...shown.values()], spots, placeholders };
    },
    release() {
      release([...kept.values(), ...shown.values()]);
      giveUpNames(placeholders);
    },
  };
}

const tooMany: Readonly<Record<keyof typeof most, string>> = {
  mounts: `more than ${most.mounts} files and folders are guarded in it`,
  placeholders: `more than ${most.placeholders} names are guarded in it that nothing has`,
  looks: `its repositories hold more than ${most.looks} folders of submodules and worktrees`,
  searched: 'its files of settings are larger than 16 MiB in all',
};

function tooMuch(what: keyof typeof most, path: string) {
  const where = path === '' ? '' : `, up to "${escapeControls(path.slice(0, 200))}"`;
  return unavailable(
    `a folder that may be written cannot be guarded: ${tooMany[what]}${where}`,
    'Look who made them, and at "git config --list --show-origin" in the repositories there. Remove what is not needed.',
  );
}

function liesIn(inside: string, folders: ReadonlyMap<string, Pinned>): boolean {
  const names = inside.split('/');
  return names.some((_, count) => folders.has(names.slice(0, count + 1).join('/')));
}

/** Holds each folder on a way in its place. Undefined where one is missing or is no folder. */
export function keepAll(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  let here: Pinned | undefined = top;
  for (const name of names) here = here && collector.keep(here, name);
  return here;
}

/** Makes something read-only as a whole, and holds what leads there in its place. */
export function lockWhole(top: Pinned, names: readonly string[], collector: Collector): Pinned | undefined {
  const above = keepAll(top, names.slice(0, -1), collector);
  return above === undefined || names.length === 0 ? undefined : collector.readOnly(above, names.at(-1) as string);
}

/** Makes the folder around a link read-only as a whole: nothing can be mounted upon the link itself. */
export function lockAround(top: Pinned, names: readonly string[], collector: Collector): void {
  if (names.length > 1) {
    lockWhole(top, names.slice(0, -1), collector);
    return;
  }
  throw unavailable(
    'a link at the top of a folder that may be written has the place of a repository, and cannot be guarded',
    'Look at "git submodule status" and "git status" there, and put a folder in the place of the link.',
  );
}
