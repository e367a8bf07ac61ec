import { randomUUID } from 'node:crypto';
import { AmbitError, isAmbitError } from '../../../errors.ts';
import type { Documents } from '../../../stores/documents.ts';
import { createPathGuard, hideCredentials, type PathRules } from '../../path-guard.ts';
import { joinNames } from '../../saferoot/check-access.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import type { FileWriteOptions, FoundFile, WorkspaceBackend, WriteResult } from '../backend.ts';
import {
  createErrorExplainer,
  endsLikeFolder,
  fileChangedError,
  notAFileNameError,
  tooLargeError,
} from '../refusals.ts';
import { countPieces, createObjectStore, openStoredFile } from './objects.ts';
import { createIntentLog, createTreeChanges, sweepGarbage, type TreeChanges } from './tree-changes.ts';
import {
  createChildrenReader,
  type FileNode,
  type FolderNode,
  listTreeFolder,
  moveInTree,
  type NodeWalkOptions,
  removeFromTree,
  type TreeNode,
  type TreeWalkResult,
  walkTreePath,
} from './tree-nodes.ts';

export interface DatabaseOptions {
  readonly rules: PathRules;
  /** The largest file that may be written; 64 MiB by default. */
  readonly fileBytes?: number;
  /** The size of all files together; 1 GiB by default. */
  readonly maxBytes?: number;
  /** The number of files and folders; 100,000 by default. */
  readonly maxEntries?: number;
  /** The time that replaced content stays for its readers; ten minutes by default. */
  readonly graceMs?: number;
}

export interface DatabaseBackend extends WorkspaceBackend {
  /** Deletes unreachable documents and returns their number. This also happens by itself. */
  sweep(): Promise<number>;
}

const defaults = { fileBytes: 67_108_864, maxBytes: 1_073_741_824, maxEntries: 100_000, graceMs: 600_000 };
/** Larger files are uploaded ahead of the change, so that others need not wait. */
const maxInlinePieces = 4;
const writesPerSweep = 256;
/** The number of sweeps in the time that content is kept. */
const sweepsPerGrace = 4;

/**
 * Opens a workspace whose files lie in the store. One document names the current tree. A change writes new objects
 * beside it and then updates that document, so readers see all of a change or nothing.
 */
export function openDatabase(documents: Documents, workspaceId: string, options: DatabaseOptions): DatabaseBackend {
  const { fileBytes, maxBytes, maxEntries, graceMs } = { ...defaults, ...options };
  const guard = createPathGuard(options.rules);
  const objects = createObjectStore(documents, workspaceId);
  const intents = createIntentLog(documents, objects);
  const readChildren = createChildrenReader(objects);
  const maxChangeMs = graceMs / 2;
  const changes = createTreeChanges({ documents, objects, intents, readChildren, maxBytes, maxEntries, maxChangeMs });
  let [isClosed, writeCount, sweptMs] = [false, 0, 0];
  let sweeping = Promise.resolve(0);

  const walk: Walk = (root, path, how) => walkTreePath(root, path, how, readChildren, guard.refusal);

  async function findNode(path: string): Promise<{ readonly names: readonly string[]; readonly node: TreeNode }> {
    const { names, node } = await walk(await changes.root(), path, { access: 'read' });
    if (node === undefined) throw new SafeRootError('FILE_NOT_FOUND');
    return { names, node };
  }

  const explain = createErrorExplainer({
    async readFolderNames(folder) {
      const { names, node } = await findNode(folder).catch(() => ({ names: [], node: undefined }));
      if (node?.kind !== 'folder') return undefined;
      const { entries } = await listTreeFolder(node, names, { limit: 1000 }, readChildren, guard.refusal);
      return entries.filter((entry) => !entry.hidden).map((entry) => entry.name);
    },
    async findRelativePath(absolute) {
      const meant = absolute.replace(/^\/+|(?<!\/)\/+$/g, '');
      return findNode(meant).then(
        ({ names }) => joinNames(names),
        () => undefined,
      );
    },
  });

  async function runOperation<T>(asked: string, work: () => Promise<T>): Promise<T> {
    if (isClosed) throw new AmbitError('WORKSPACE_UNAVAILABLE');
    try {
      return await explain(asked, work);
    } catch (error) {
      if (!isAmbitError(error) || error.code !== 'STORE_UNAVAILABLE') throw error;
      throw new AmbitError('WORKSPACE_UNAVAILABLE', { cause: error });
    }
  }

  function sweep(): Promise<number> {
    const next = sweeping.catch(() => 0).then(() => sweepGarbage(changes, intents, objects, readChildren, graceMs));
    sweeping = next.catch(() => 0);
    return next;
  }

  /** Sweeps now and then, in the background. */
  function sweepWhenDue(): void {
    if (writeCount++ % writesPerSweep !== 0 || Date.now() - sweptMs < graceMs / sweepsPerGrace) return;
    sweptMs = Date.now();
    void sweep().catch(() => {});
  }

  async function assertFileName(asked: string): Promise<void> {
    if (typeof asked !== 'string' || !endsLikeFolder(asked)) return;
    // A path that leads out or is protected is refused as such.
    await walk(await changes.root(), asked, { access: 'write', make: 'all' });
    throw notAFileNameError(asked);
  }

  return {
    kind: 'database',
    sweep,

    stat: (asked) =>
      runOperation(asked, async () => {
        const { names, node } = await findNode(asked);
        return describeNode(names, node);
      }),

    open: (asked) =>
      runOperation(asked, async () => {
        const { names, node } = await findNode(asked);
        if (node.kind === 'folder') throw new SafeRootError('IS_A_DIRECTORY');
        const file = openStoredFile(node, describeNode(names, node), objects);
        const opened = {
          ...file,
          read: (offset: number, length: number) => runOperation(asked, () => file.read(offset, length)),
        };
        return hideCredentials(opened, asked, guard);
      }),

    write: (asked, content, how = {}) =>
      runOperation(asked, async () => {
        if (content.byteLength > fileBytes) throw tooLargeError(content.byteLength, fileBytes);
        await assertFileName(asked);
        sweepWhenDue();
        return writeFile(changes, walk, asked, content, how);
      }),

    mayWrite: (asked, { expected } = {}) =>
      runOperation(asked, async () => {
        await assertFileName(asked);
        const { names } = await resolveWriteTarget(walk, await changes.root(), asked, expected);
        return { path: joinNames(names) };
      }),

    makeFolder: (asked) =>
      runOperation(asked, () =>
        changes.change(async (tree) => {
          const { names, node } = await walk(tree.root, asked, { access: 'write', make: 'all' });
          if (node?.kind === 'file') throw new SafeRootError('EXISTS');
          await tree.makeFolder(names);
          return { path: joinNames(names), folders: tree.foldersMade() };
        }),
      ),

    remove: (asked, how = {}) =>
      runOperation(asked, () =>
        changes.change((tree) => removeFromTree(tree, asked, how, readChildren, guard.refusal)),
      ),

    move: (from, to, how = {}) =>
      runOperation(from, () => changes.change((tree) => moveInTree(tree, from, to, how, readChildren, guard.refusal))),

    list: (asked, how = {}) =>
      runOperation(asked, async () => {
        const { names, node } = await findNode(asked);
        if (node.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
        return listTreeFolder(node, names, how, readChildren, guard.refusal);
      }),

    async close() {
      isClosed = true;
      await sweeping;
    },
  };
}

type Walk = (root: FolderNode, path: string, options: NodeWalkOptions) => Promise<TreeWalkResult>;

/** Finds the names that a file would be written under, and the file that is there now. */
async function resolveWriteTarget(walk: Walk, root: FolderNode, asked: string, expected: FileWriteOptions['expected']) {
  const isUnversioned = expected === undefined || expected === 'absent';
  const how: NodeWalkOptions = isUnversioned ? { access: 'write', make: 'parents' } : { access: 'write' };
  const { names, node: old } = await walk(root, asked, how).catch((error: unknown) => {
    const gone = !isUnversioned && error instanceof SafeRootError && error.code === 'FILE_NOT_FOUND';
    throw gone ? fileChangedError(asked) : error;
  });
  if (expected === 'absent' && old !== undefined) throw new SafeRootError('EXISTS');
  if (old?.kind === 'folder') throw new SafeRootError('IS_A_DIRECTORY');
  if (!isUnversioned && old?.version !== expected.version) throw new SafeRootError('CHANGED');
  return { names, old };
}

async function writeFile(
  changes: TreeChanges,
  walk: Walk,
  asked: string,
  content: Uint8Array,
  { expected, mode = 0o644 }: FileWriteOptions,
): Promise<WriteResult> {
  const early = countPieces(content.byteLength) > maxInlinePieces ? await changes.upload(content) : undefined;
  try {
    return await changes.change(async (tree) => {
      const { names, old } = await resolveWriteTarget(walk, tree.root, asked, expected);
      const node: FileNode = {
        kind: 'file',
        bytes: content.byteLength,
        mode: old?.mode ?? mode & 0o777,
        modifiedMs: Date.now(),
        version: randomUUID(),
        content: early === undefined ? tree.add(content) : early.content,
      };
      if (old !== undefined) tree.drop(old);
      await tree.put(names, node);
      return { ...describeNode(names, node), created: old === undefined, folders: tree.foldersMade() };
    }, early);
  } catch (error) {
    // If the store did not answer, the change may have been made.
    const isDecided = !isAmbitError(error) || error.code !== 'STORE_UNAVAILABLE';
    if (early !== undefined && isDecided) await changes.discard(early).catch(() => {});
    throw error;
  }
}

const folderMode = 0o755;

function describeNode(names: readonly string[], node: TreeNode): FoundFile {
  const { kind, modifiedMs } = node;
  const common = { path: joinNames(names), kind, modifiedMs };
  if (node.kind === 'file') return { ...common, bytes: node.bytes, mode: node.mode, version: node.version };
  return { ...common, bytes: 0, mode: folderMode, version: JSON.stringify([node.content, modifiedMs]) };
}
