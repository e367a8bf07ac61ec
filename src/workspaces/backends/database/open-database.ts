import { randomUUID } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import { createExplain } from '../../explain-errors.ts';
import { withoutCredentials } from '../../hide-credentials.ts';
import { createPathGuard } from '../../path-guard.ts';
import type { PathRules } from '../../path-rules.ts';
import { asPath } from '../../saferoot/check-access.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { FoundFile, WorkspaceBackend, WriteOptions, Written } from '../backend.ts';
import { changedMeanwhile, endsAsFolder, notAFileName, tooLargeToWrite } from '../refusals.ts';
import { objectsOf, openFile, piecesOf } from './objects.ts';
import { createChanges } from './tree-changes.ts';
import { createChildrenOf, type FileNode, type FolderNode, type Node } from './tree-nodes.ts';
import { listTree, moveInTree, type PathWalk, surveyTree, walkPath } from './tree-paths.ts';
import { intentsOf, sweepObjects } from './write-intents.ts';

export interface DatabaseOptions {
  readonly rules: PathRules;
  /** The largest file that may be written; 64 MiB unless given. */
  readonly fileBytes?: number;
  /** All files together; 1 GiB unless given. */
  readonly maxBytes?: number;
  /** Files and folders together; 100,000 unless given. */
  readonly maxEntries?: number;
  /** How long replaced and removed content stays for those who are still reading it; ten minutes unless given. */
  readonly graceMs?: number;
}

export interface DatabaseBackend extends WorkspaceBackend {
  /** Deletes what nobody can ask for any more, and answers how many documents that were. It is done by itself, too. */
  sweep(): Promise<number>;
}

const defaults = { fileBytes: 67_108_864, maxBytes: 1_073_741_824, maxEntries: 100_000, graceMs: 600_000 };
/** More than so many pieces are written before anybody has to wait for them. */
const fewPieces = 4;
const writesPerSweep = 256;
/** Nor more often than so many times in which content is kept. */
const sweepsPerGrace = 4;

/**
 * A workspace without a folder: its files lie in the store. One document names the tree there is; every change writes
 * what is new beside it and then moves that document on, so whoever looks sees all of a change or nothing of it.
 */
export function openDatabase(documents: Documents, workspaceId: string, options: DatabaseOptions): DatabaseBackend {
  const { fileBytes, maxBytes, maxEntries, graceMs } = { ...defaults, ...options };
  const guard = createPathGuard(options.rules);
  const objects = objectsOf(documents, workspaceId);
  const intents = intentsOf(documents, objects);
  const childrenOf = createChildrenOf(objects);
  const patienceMs = graceMs / 2;
  const changes = createChanges({ documents, objects, intents, childrenOf, maxBytes, maxEntries, patienceMs });
  let [closed, writes, sweptMs] = [false, 0, 0];
  let sweeping = Promise.resolve(0);

  const walk = (root: FolderNode, path: string, how: PathWalk) => walkPath(root, path, how, childrenOf, guard.refusal);

  async function lookAt(path: string): Promise<{ readonly inside: readonly string[]; readonly node: Node }> {
    const { inside, node } = await walk(await changes.root(), path, { deed: 'read' });
    if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
    return { inside, node };
  }

  const explain = createExplain({
    async namesIn(folder) {
      const { inside, node } = await lookAt(folder).catch(() => ({ inside: [], node: undefined }));
      if (node?.kind !== 'folder') return undefined;
      const { entries } = await listTree(node, inside, { limit: 1000 }, childrenOf, guard.refusal);
      return entries.filter((entry) => !entry.hidden).map((entry) => entry.name);
    },
    async relativeTo(absolute) {
      const meant = absolute.replace(/^\/+|(?<!\/)\/+$/g, '');
      return lookAt(meant).then(
        ({ inside }) => asPath(inside),
        () => undefined,
      );
    },
  });

  async function doing<T>(asked: string, work: () => Promise<T>): Promise<T> {
    if (closed) throw new AmbitError('WORKSPACE_UNAVAILABLE');
    try {
      return await explain(asked, work);
    } catch (error) {
      if (!isAmbitError(error) || error.code !== 'STORE_UNAVAILABLE') throw error;
      throw new AmbitError('WORKSPACE_UNAVAILABLE', { cause: error });
    }
  }

  function sweep(): Promise<number> {
    const next = sweeping.catch(() => 0).then(() => sweepObjects(changes, intents, objects, childrenOf, graceMs));
    sweeping = next.catch(() => 0);
    return next;
  }

  /** Now and then, while others work. */
  function tidy(): void {
    if (writes++ % writesPerSweep !== 0 || Date.now() - sweptMs < graceMs / sweepsPerGrace) return;
    sweptMs = Date.now();
    void sweep().catch(() => {});
  }

  /** Where a file would be written, and the one that is there. */
  async function aim(root: FolderNode, asked: string, expected: WriteOptions['expected']) {
    const anew = expected === undefined || expected === 'absent';
    const how: PathWalk = anew ? { deed: 'write', make: 'parents' } : { deed: 'write' };
    const { inside, node: old } = await walk(root, asked, how).catch((error: unknown) => {
      const gone = !anew && error instanceof SafeRootError && error.code === 'FILE_NOT_FOUND';
      throw gone ? changedMeanwhile(asked) : error;
    });
    if (expected === 'absent' && old !== undefined) throw new SafeRootError('EXISTS');
    if (old?.kind === 'folder') throw new SafeRootError('IS_A_DIRECTORY');
    if (!anew && old?.version !== expected.version) throw new SafeRootError('CHANGED');
    return { inside, old };
  }

  async function assertFileName(asked: string): Promise<void> {
    if (typeof asked !== 'string' || !endsAsFolder(asked)) return;
    // A path that leads out or is closed is refused as such.
    await walk(await changes.root(), asked, { deed: 'write', make: 'all' });
    throw notAFileName(asked);
  }

  async function write(asked: string, content: Uint8Array, { expected, mode = 0o644 }: WriteOptions): Promise<Written> {
    const early = piecesOf(content.byteLength) > fewPieces ? await changes.upload(content) : undefined;
    try {
      return await changes.change(async (tree) => {
        const { inside, old } = await aim(tree.root, asked, expected);
        const node: FileNode = {
          kind: 'file',
          bytes: content.byteLength,
          mode: old?.mode ?? mode & 0o777,
          modifiedMs: Date.now(),
          version: randomUUID(),
          content: early === undefined ? tree.add(content) : early.content,
        };
        if (old !== undefined) tree.drop(old);
        await tree.put(inside, node);
        return { ...factsOf(inside, node), created: old === undefined, folders: tree.made() };
      }, early);
    } catch (error) {
      // When the store did not answer, it may have been done all the same.
      const decided = !isAmbitError(error) || error.code !== 'STORE_UNAVAILABLE';
      if (early !== undefined && decided) await changes.discard(early).catch(() => {});
      throw error;
    }
  }

  return {
    kind: 'database',
    sweep,

    stat: (asked) =>
      doing(asked, async () => {
        const { inside, node } = await lookAt(asked);
        return factsOf(inside, node);
      }),

    open: (asked) =>
      doing(asked, async () => {
        const { inside, node } = await lookAt(asked);
        if (node.kind === 'folder') throw new SafeRootError('IS_A_DIRECTORY');
        const file = openFile(node, factsOf(inside, node), objects);
        const opened = {
          ...file,
          read: (offset: number, length: number) => doing(asked, () => file.read(offset, length)),
        };
        return withoutCredentials(opened, asked, guard);
      }),

    write: (asked, content, how = {}) =>
      doing(asked, async () => {
        if (content.byteLength > fileBytes) throw tooLargeToWrite(content.byteLength, fileBytes);
        await assertFileName(asked);
        tidy();
        return write(asked, content, how);
      }),

    mayWrite: (asked, { expected } = {}) =>
      doing(asked, async () => {
        await assertFileName(asked);
        const { inside } = await aim(await changes.root(), asked, expected);
        return { path: asPath(inside) };
      }),

    makeFolder: (asked) =>
      doing(asked, () =>
        changes.change(async (tree) => {
          const { inside, node } = await walk(tree.root, asked, { deed: 'write', make: 'all' });
          if (node?.kind === 'file') throw new SafeRootError('EXISTS');
          await tree.makeFolder(inside);
          return { path: asPath(inside), folders: tree.made() };
        }),
      ),

    remove: (asked, how = {}) =>
      doing(asked, () =>
        changes.change(async (tree) => {
          const { inside, node } = await walk(tree.root, asked, { deed: 'write' });
          if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
          if (inside.length === 0) throw new SafeRootError('PATH_VIOLATION', { what: 'is the folder itself' });
          const below = node.kind === 'folder' ? node.entries : 0;
          if (below > 0 && !how.recursive) throw new SafeRootError('NOT_EMPTY');
          if (below > (how.maxEntries ?? defaults.maxEntries)) throw new SafeRootError('TOO_MANY_ENTRIES');
          if (node.kind === 'folder') await surveyTree(node, [inside], childrenOf, guard.refusal);
          tree.drop(node);
          await tree.take(inside);
          return { path: asPath(inside), kind: node.kind, entries: below + 1 };
        }),
      ),

    move: (from, to, how = {}) =>
      doing(from, () => changes.change((tree) => moveInTree(tree, from, to, how, childrenOf, guard.refusal))),

    list: (asked, how = {}) =>
      doing(asked, async () => {
        const { inside, node } = await lookAt(asked);
        if (node.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
        return listTree(node, inside, how, childrenOf, guard.refusal);
      }),

    async close() {
      closed = true;
      await sweeping;
    },
  };
}

const folderMode = 0o755;

function factsOf(inside: readonly string[], node: Node): FoundFile {
  const { kind, modifiedMs } = node;
  const both = { path: asPath(inside), kind, modifiedMs };
  if (node.kind === 'file') return { ...both, bytes: node.bytes, mode: node.mode, version: node.version };
  return { ...both, bytes: 0, mode: folderMode, version: JSON.stringify([node.content, modifiedMs]) };
}
