import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AmbitError } from '../../../errors.ts';
import { createOneAtATime, type OneAtATime } from '../../../lib/async/one-at-a-time.ts';
import type { Documents } from '../../../stores/documents.ts';
import { SafeRootError } from '../../saferoot/saferoot-error.ts';
import { type Objects, piecesOf, type Ref } from './objects.ts';
import { type ChildrenOf, emptyFolder, encodeFolder, type FolderNode, type Node } from './tree-nodes.ts';
import type { Intents, Operation } from './write-intents.ts';

/** The tree while it is changed: folders on the way to a change are copied, all others stay as they are. */
interface Draft {
  readonly root: FolderNode;
  readonly changed: () => boolean;
  /** How many folders were made so far. */
  readonly made: () => number;
  makeFolder(names: readonly string[]): Promise<void>;
  put(names: readonly string[], node: Node): Promise<void>;
  take(names: readonly string[]): Promise<void>;
}

interface DraftFolder extends FolderNode {
  modifiedMs: number;
  readonly draft: NonNullable<FolderNode['draft']>;
}

interface Settled {
  readonly root: FolderNode;
  readonly writes: readonly (readonly [Ref, Buffer])[];
  /** What the folders that were changed had been written as. */
  readonly stale: readonly Ref[];
}

export interface Changing extends Draft {
  /** Bytes that are written before the change holds. */
  add(content: Uint8Array): Ref | null;
  /** What nobody refers to once the change holds. */
  drop(node: Node): void;
}

export interface Changes {
  /** The tree as it is now. */
  root(): Promise<FolderNode>;
  /** The work is done again from the start as often as somebody else was faster; it changes nothing but the draft. */
  change<T>(work: (tree: Changing) => Promise<T>, early?: Uploaded): Promise<T>;
  /** Writes bytes ahead of a change, so that nobody waits for it. */
  upload(content: Uint8Array): Promise<Uploaded>;
  discard(uploaded: Uploaded): Promise<void>;
}

export interface Uploaded {
  readonly operation: Operation;
  readonly content: Ref;
}

export interface ChangesParts {
  readonly documents: Documents;
  readonly objects: Objects;
  readonly intents: Intents;
  readonly childrenOf: ChildrenOf;
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** After this the change may not be made any more: what it wrote may be swept. */
  readonly patienceMs: number;
}

const attempts = 100;
/** Those who share a store in one process take turns; only others are ever met as a conflict. */
const turns = new WeakMap<Documents, OneAtATime>();

export function createChanges(parts: ChangesParts): Changes {
  const { documents, objects, intents, childrenOf, patienceMs } = parts;
  const oneAtATime = turns.get(documents) ?? createOneAtATime();
  turns.set(documents, oneAtATime);

  async function readRoot(): Promise<{ readonly root: FolderNode; readonly version: number }> {
    const found = await documents.get(objects.collection, 'root');
    if (found === undefined) return { root: emptyFolder(0), version: 0 };
    return { root: JSON.parse(found.text) as FolderNode, version: found.version };
  }

  async function attempt<T>(work: (tree: Changing) => Promise<T>, operation: Operation, from: number) {
    const { root: before, version } = await readRoot();
    const draft = await draftOf(before, childrenOf);
    const writes: (readonly [Ref, Uint8Array])[] = [];
    const [stale, trees]: [Ref[], Ref[]] = [[], []];
    let next = from;
    const nextRef = (pieces: number): Ref => {
      next += pieces;
      return [operation.name, next - pieces, pieces];
    };
    const result = await work({
      ...draft,
      add(content) {
        if (content.byteLength === 0) return null;
        const ref = nextRef(piecesOf(content.byteLength));
        writes.push([ref, content]);
        return ref;
      },
      drop({ kind, content }) {
        if (content !== null) (kind === 'folder' ? trees : stale).push(content);
      },
    });
    if (!draft.changed()) return { done: true, result, fresh: [], next };
    const settled = settle(draft.root, nextRef);
    assertRoom(before, settled.root);
    writes.push(...settled.writes);
    const fresh = writes.map(([ref]) => ref);
    await intents.note(operation, { fresh, stale: [...stale, ...settled.stale], trees });
    for (const [ref, content] of writes) await objects.put(ref, content);
    if (Date.now() - operation.startedMs > patienceMs) throw tooSlow();
    const text = JSON.stringify(settled.root);
    const { outcome } = await documents.put(objects.collection, 'root', text, { expectedVersion: version });
    return { done: outcome === 'written', result, fresh, next };
  }

  function assertRoom(before: FolderNode, after: FolderNode): void {
    const full =
      (after.bytes > parts.maxBytes && after.bytes > before.bytes) ||
      (after.entries > parts.maxEntries && after.entries > before.entries);
    if (full) throw new AmbitError('WORKSPACE_FULL', { what: 'The workspace holds as much as it may.' });
  }

  const begin = (): Operation => ({ name: randomBytes(12).toString('hex'), startedMs: Date.now() });

  return {
    root: async () => (await readRoot()).root,

    change: (work, early) =>
      oneAtATime(objects.collection, async () => {
        // What was uploaded ahead has a note of its own; only its time goes on running.
        const operation = { ...begin(), ...(early && { startedMs: early.operation.startedMs }) };
        for (let [left, next] = [attempts, 0]; left > 0; left--) {
          const tried = await attempt(work, operation, next);
          if (tried.done) return tried.result;
          next = tried.next;
          for (const ref of tried.fresh) await objects.delete(ref);
          await pause(Math.random() * Math.min(100, 4 * (attempts - left + 1)));
        }
        throw new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'Too many write here at the same time.' });
      }),

    async upload(content) {
      const operation = begin();
      const ref: Ref = [operation.name, 0, piecesOf(content.byteLength)];
      await intents.note(operation, { fresh: [ref], stale: [], trees: [] });
      await objects.put(ref, content);
      return { operation, content: ref };
    },

    async discard({ operation, content }) {
      await objects.delete(content);
      await intents.forget(operation);
    },
  };
}

const tooSlow = () =>
  new AmbitError('WORKSPACE_UNAVAILABLE', { what: 'Writing took too long, so nothing was changed.' });

async function draftOf(root: FolderNode, childrenOf: ChildrenOf): Promise<Draft> {
  const now = Date.now();
  let made = 0;
  let changed = false;

  const copied = async (folder: FolderNode): Promise<DraftFolder> => ({
    ...folder,
    draft: { children: new Map(await childrenOf(folder)), was: folder.content },
  });
  const top = await copied(root);

  async function folderAt(names: readonly string[]): Promise<DraftFolder> {
    let here = top;
    for (const name of names) {
      const child = here.draft.children.get(name);
      if (child?.kind === 'file') throw new SafeRootError('NOT_A_DIRECTORY');
      const next = child?.draft === undefined ? await copied(child ?? emptyFolder(now)) : (child as DraftFolder);
      if (child === undefined) {
        made++;
        changed = true;
        here.modifiedMs = now;
      }
      here.draft.children.set(name, next);
      here = next;
    }
    return here;
  }

  async function parentOf(names: readonly string[]): Promise<DraftFolder> {
    const parent = await folderAt(names.slice(0, -1));
    parent.modifiedMs = now;
    changed = true;
    return parent;
  }

  return {
    root: top,
    changed: () => changed,
    made: () => made,
    makeFolder: async (names) => void (await folderAt(names)),
    put: async (names, node) => void (await parentOf(names)).draft.children.set(names.at(-1) as string, node),
    take: async (names) => void (await parentOf(names)).draft.children.delete(names.at(-1) as string),
  };
}

/** The folders that were changed, as they are to be written: the innermost first, for the outer ones name them. */
function settle(root: FolderNode, nextRef: (pieces: number) => Ref): Settled {
  const writes: [Ref, Buffer][] = [];
  const stale: Ref[] = [];

  function settled(folder: FolderNode): FolderNode {
    if (folder.draft === undefined) return folder;
    const { children, was } = folder.draft;
    let [entries, bytes] = [0, 0];
    for (const [name, node] of children) {
      const now = node.kind === 'folder' ? settled(node) : node;
      if (now !== node) children.set(name, now);
      entries += 1 + (now.kind === 'folder' ? now.entries : 0);
      bytes += now.bytes;
    }
    if (was !== null) stale.push(was);
    let content: Ref | null = null;
    if (children.size > 0) {
      const written = encodeFolder(children);
      content = nextRef(piecesOf(written.length));
      writes.push([content, written]);
    }
    return { kind: 'folder', modifiedMs: folder.modifiedMs, entries, bytes, content };
  }

  return { root: settled(root), writes, stale };
}
