import { realpathSync } from 'node:fs';
import { posix } from 'node:path';
import { AmbitError } from '../../../errors.ts';
import { createExplain } from '../../explain-errors.ts';
import { withoutCredentials } from '../../hide-credentials.ts';
import { createPathGuard } from '../../path-guard.ts';
import type { PathRules } from '../../path-rules.ts';
import type { Admit } from '../../saferoot/check-access.ts';
import type { Located } from '../../saferoot/file-info.ts';
import type { Entry } from '../../saferoot/list-folder.ts';
import { openRoot, type SafeRoot, type SafeRootOptions } from '../../saferoot/open-root.ts';
import { plainNames } from '../../saferoot/path-components.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { isTemporaryName } from '../../saferoot/temporary-file.ts';
import type { Ripgrep } from '../../search/ripgrep.ts';
import type { FoundFile, ListedEntry, OpenedFile, WorkspaceBackend, WriteOptions, Written } from '../backend.ts';
import { changedMeanwhile, endsAsFolder, notAFileName, tooLargeToWrite } from '../refusals.ts';
import { guardLedPlaces } from './guard-protected-targets.ts';

export interface LocalOptions {
  readonly rules: PathRules;
  /** What was written is on the disk when it is answered; only in the system's cache unless told. */
  readonly durable?: boolean;
  /** The largest file that may be written; 64 MiB unless given. */
  readonly fileBytes?: number;
  /** Whether leftovers of writes that were killed are looked for; true unless told. */
  readonly sweep?: boolean;
  /** Tells which files a search has to read; it reads all of them unless given. */
  readonly ripgrep?: Ripgrep | undefined;
}

export interface LocalBackend extends WorkspaceBackend {
  /** How many leftovers of killed writes were removed. It is looked for while others already work. */
  readonly swept: Promise<number>;
}

const defaultFileBytes = 64 * 1024 * 1024;
/** Somebody else may make, move or remove what a write without conditions is about; it is tried again so often. */
const attempts = 8;

/** A folder of the host as a workspace. */
export function openLocal(path: string, options: LocalOptions): LocalBackend {
  const guard = guardLedPlaces(() => real, createPathGuard(options.rules));
  const fileBytes = options.fileBytes ?? defaultFileBytes;
  const sync = options.durable ?? false;
  const admit: Admit = (deed, names) =>
    names.some(isTemporaryName) ? 'is a name that files have while they are written' : guard.refusal(deed, names);
  const root = rootAt(path, { admit, prepare: guard.prepare });
  const real = realpathSync(path);
  const homes = new Set([posix.normalize(path), real].map((home) => home.replace(/(?<!\/)\/+$/, '')));
  const isPlain = homes.size === 1;
  const { ripgrep } = options;
  const { descriptor } = root;
  const swept = options.sweep === false ? Promise.resolve(0) : root.sweep().catch(() => 0);

  const looking = createExplain({ namesIn, relativeTo });

  function changing<T>(asked: string, work: () => Promise<T>): Promise<T> {
    return looking(asked, () => untilKnown(work));
  }

  /** What is refused because a large folder is still looked through is tried again when that is done. */
  async function untilKnown<T>(work: () => Promise<T>): Promise<T> {
    for (let left = attempts; ; left--) {
      guard.lookAgain();
      const before = guard.looksEnded();
      try {
        return await work();
      } catch (error) {
        const underWay = guard.underWay();
        const mayBeKnown = underWay !== undefined || guard.looksEnded() !== before;
        if (!mayBeKnown || left === 0 || codeOf(error) !== 'NOT_ADMITTED') throw error;
        await underWay;
      }
    }
  }

  async function namesIn(folder: string): Promise<readonly string[] | undefined> {
    const listing = await root.list(folder, { limit: 1000, without: isTemporaryName }).catch(() => undefined);
    return listing?.entries.filter((entry) => !entry.closed && !entry.unrepresentable).map((entry) => entry.name);
  }

  /** What an absolute path is called here: it lies in this folder, or was meant from the workspace on. */
  async function relativeTo(absolute: string): Promise<string | undefined> {
    const plain = posix.normalize(absolute).replace(/(?<=[^/])\/+$/, '');
    if (homes.has(plain)) return '.';
    for (const home of homes) if (plain.startsWith(`${home}/`)) return plain.slice(home.length + 1);
    const meant = plain.replace(/^\/+/, '');
    const there =
      meant !== '' &&
      (await root.stat(meant).then(
        () => true,
        () => false,
      ));
    return there ? meant : undefined;
  }

  /** The files of a repository under any name are known as those in `.git`. */
  async function inRepository(led: string): Promise<readonly string[][]> {
    const { dir, base } = posix.parse(led);
    if (!/^(?:config|config\.worktree|credentials)$/i.test(base)) return [];
    const has = (name: string) =>
      root.stat(posix.join(dir, name)).then(
        () => true,
        () => false,
      );
    const [head, common, objects, refs] = await Promise.all(['HEAD', 'commondir', 'objects', 'refs'].map(has));
    return head && (common || (objects && refs)) ? [[...posix.join(dir, '.git').split('/'), base]] : [];
  }

  /** Whoever works in a folder above could put a link in its place: it was the folder that was named, not the link. */
  function hasBecomeLink(): boolean {
    try {
      return isPlain && realpathSync(path) !== real;
    } catch {
      return false;
    }
  }

  async function write(asked: string, content: Uint8Array, { expected, mode }: WriteOptions): Promise<Written> {
    const how = { sync, ...(mode === undefined ? {} : { mode }) };
    if (expected === 'absent') return writtenOf(await root.create(asked, content, { ...how, parents: true }));
    if (expected !== undefined) {
      const replaced = root.replace(asked, content, { ...how, version: expected.version });
      return writtenOf(await replaced.catch(unlessGone(asked)));
    }
    for (let left = attempts; ; left--) {
      try {
        return writtenOf(await root.replace(asked, content, { ...how, parents: true, create: true }));
      } catch (error) {
        if (left === 0 || !['EXISTS', 'CHANGED'].includes(codeOf(error) ?? '')) throw error;
      }
    }
  }

  async function assertFileName(asked: string): Promise<void> {
    if (typeof asked !== 'string' || !endsAsFolder(asked)) return;
    // A path that leads out or is closed is refused as such.
    await root.stat(asked).catch((error: unknown) => {
      if (codeOf(error) !== 'FILE_NOT_FOUND') throw error;
    });
    throw notAFileName(asked);
  }

  return {
    kind: 'local',
    swept,
    stat: (asked, how) => looking(asked, async () => factsOf(await root.stat(asked, how))),

    open: (asked) =>
      looking(asked, async () => {
        const file = await root.open(asked);
        const opened: OpenedFile = {
          facts: factsOf(file.facts),
          read: (offset, length) => looking(asked, () => file.read(offset, length)),
          close: () => file.close(),
        };
        const { path: led } = opened.facts;
        // A link in a large folder may lead to it.
        await guard.prepare([]);
        const known = [plainNames(asked), ...guard.otherNames(led.split('/')), ...(await inRepository(led))];
        return withoutCredentials(opened, asked, guard, known);
      }),

    write: (asked, content, how = {}) =>
      changing(asked, async () => {
        if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
        await assertFileName(asked);
        return write(asked, content, how);
      }),

    mayWrite: (asked, { expected } = {}) =>
      changing(asked, async () => {
        await assertFileName(asked);
        if (expected === undefined || expected === 'absent')
          return root.mayWrite(asked, { absent: expected === 'absent' });
        return root.mayWrite(asked, expected).catch(unlessGone(asked));
      }),

    makeFolder: (asked) => changing(asked, () => root.mkdir(asked, { parents: true })),
    remove: (asked, how = {}) =>
      changing(asked, () => {
        if (!how.recursive) return root.remove(asked);
        return root.removeTree(asked, how.maxEntries === undefined ? {} : { maxEntries: how.maxEntries });
      }),
    move: (from, to, how = {}) =>
      changing(from, () => root.rename(from, to, { parents: true, overwrite: how.overwrite ?? false })),

    list: (asked, how = {}) =>
      looking(asked, async () => {
        const { path: found, entries, more } = await root.list(asked, { ...how, without: isTemporaryName });
        return { path: found, more, entries: entries.map(entryOf) };
      }),

    candidates:
      ripgrep === undefined || descriptor === undefined ? undefined : (query) => ripgrep.candidates(descriptor, query),

    isElsewhere: () => root.isElsewhere() && !hasBecomeLink(),

    async close() {
      root.close();
      await swept;
      await guard.underWay();
    },
  };
}

function rootAt(path: string, options: SafeRootOptions): SafeRoot {
  try {
    return openRoot(path, options);
  } catch (error) {
    throw new AmbitError('WORKSPACE_UNAVAILABLE', {
      what: 'The folder of the workspace cannot be opened.',
      cause: error,
    });
  }
}

/** Whoever expects a version has seen the file. */
function unlessGone(asked: string): (error: unknown) => never {
  return (error) => {
    throw codeOf(error) === 'FILE_NOT_FOUND' ? changedMeanwhile(asked) : error;
  };
}

const codeOf = (error: unknown): string | undefined => (error instanceof SafeRootError ? error.code : undefined);

const factsOf = ({ path, kind, size, mode, modifiedMs, version }: Located): FoundFile => ({
  path,
  kind,
  bytes: size,
  mode,
  modifiedMs,
  version,
});

const writtenOf = (file: Located & { readonly created: boolean; readonly folders: number }): Written => ({
  ...factsOf(file),
  created: file.created,
  folders: file.folders,
});

function entryOf({ name, kind, size, modifiedMs, unrepresentable, closed }: Entry): ListedEntry {
  // Almost all are like these: no spreads for thousands of them.
  if (!unrepresentable && !closed) {
    return size === undefined || modifiedMs === undefined ? { name, kind } : { name, kind, bytes: size, modifiedMs };
  }
  return { name, kind, ...(unrepresentable ? { unrepresentable } : {}), ...(closed ? { hidden: closed } : {}) };
}
