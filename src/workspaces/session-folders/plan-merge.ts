import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join, posix } from 'node:path';
import { mergeLines } from '../../lib/text/line-diff.ts';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import type { FolderChange } from './changes.ts';
import { decodeText, maxTextBytes, type ReadOriginal } from './original-files.ts';
import { isSameContent, type PathContent, readContent } from './snapshot.ts';
import { ignoreGone } from './walk-tree.ts';

/** The reason why a path in a repository may not be written; undefined when it may. */
type RefuseInRepository = (path: string) => Promise<string | undefined>;

export type MergeOutcome = 'taken' | 'merged' | 'already' | 'left' | 'refused' | 'conflict';

export interface PlannedChange {
  readonly path: string;
  readonly outcome: MergeOutcome;
  readonly reason?: string;
  readonly before: PathContent | undefined;
  /** The content in the session when the merge was planned; `staged` is the copy of a file. */
  readonly session: PathContent | undefined;
  readonly staged: string | undefined;
  /** The content in the workspace; `next` is the content after the merge. */
  readonly found: PathContent | undefined;
  readonly next: PathContent | undefined;
  /** The file with the content of `next`, where that is a file. */
  readonly source: string | undefined;
}

export interface MergeFolders {
  readonly session: SafeRoot;
  readonly workspace: SafeRoot;
  /** An empty private folder. */
  readonly staging: string;
}

export interface MergeRules {
  /** Why sessions may not write this path; undefined when they may. */
  readonly closed: (path: string) => string | undefined;
  /** The version that wins where both changed the same. Unless given, that is a conflict. */
  readonly prefer?: 'session' | 'workspace' | undefined;
}

/** Plans a three-way merge of each path: base, session and workspace. Changes nothing. */
export async function planMerge(
  folders: MergeFolders,
  changes: readonly FolderChange[],
  read: ReadOriginal,
  rules: MergeRules,
): Promise<PlannedChange[]> {
  const plan: PlannedChange[] = [];
  const inRepository = createRepositoryCheck(folders.workspace, rules.closed);
  for (const change of changes)
    plan.push(await planChange(folders, change, read, { ...rules, inRepository }, plan.length));
  return Promise.all(plan.map((each) => checkParents(folders.workspace, each, plan)));
}

async function planChange(
  { session, workspace, staging }: MergeFolders,
  change: FolderChange,
  read: ReadOriginal,
  { closed, prefer, inRepository }: MergeRules & { readonly inRepository: RefuseInRepository },
  count: number,
): Promise<PlannedChange> {
  const { path, before } = change;
  const refusal = closed(path) ?? refuseOutsideLink(path, change.after) ?? (await inRepository(path));
  if (refusal !== undefined) {
    const nothing = { staged: undefined, found: undefined, next: undefined, source: undefined };
    return { path, before, outcome: 'refused', reason: refusal, session: change.after, ...nothing };
  }
  const { content: after, staged } = await stageFile(session, change, join(staging, String(count)));
  const found = await readContent(workspace, path);
  const taken = { path, before, session: after, staged, found, next: after, source: staged };
  if (isSameContent(found, after)) return { ...taken, outcome: 'already' };
  if (isSameContent(found, before)) return { ...taken, outcome: 'taken' };
  const merged = await mergeText(workspace, { ...change, after }, found, staged, read);
  if (merged !== undefined) {
    const source = join(staging, `${count}.merged`);
    await writeFile(source, merged.text, { flag: 'wx', mode: 0o600 });
    const next: PathContent = { kind: 'file', sha256: '', bytes: 0, executable: merged.executable };
    return { ...taken, outcome: 'merged', next, source };
  }
  if (prefer === 'session') return { ...taken, outcome: 'taken', reason: describeConflict(before, after, found) };
  const outcome = prefer === 'workspace' ? 'left' : 'conflict';
  return { ...taken, outcome, reason: describeConflict(before, after, found) };
}

/** Copies the file of the session, which may change while the merge goes on. */
async function stageFile(
  session: SafeRoot,
  { path, after }: FolderChange,
  target: string,
): Promise<{ readonly content: PathContent | undefined; readonly staged: string | undefined }> {
  if (after?.kind !== 'file') return { content: after, staged: undefined };
  const file = await ignoreGone(session.open(path));
  if (file === undefined) return { content: undefined, staged: undefined };
  await withOpen(file, ({ copyTo }) => copyTo(target));
  return { content: await hashStaged(target, after.executable), staged: target };
}

async function hashStaged(file: string, executable: boolean): Promise<PathContent> {
  const hash = createHash('sha256');
  let bytes = 0;
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) {
    hash.update(chunk);
    bytes += chunk.length;
  }
  return { kind: 'file', sha256: hash.digest('hex'), bytes, executable };
}

async function mergeText(
  workspace: SafeRoot,
  change: FolderChange,
  found: PathContent | undefined,
  staged: string | undefined,
  read: ReadOriginal,
): Promise<{ readonly text: string; readonly executable: boolean } | undefined> {
  const { path, before, after } = change;
  if (before?.kind !== 'file' || after?.kind !== 'file' || found?.kind !== 'file' || staged === undefined) {
    return undefined;
  }
  if (Math.max(before.bytes, after.bytes, found.bytes) > maxTextBytes) return undefined;
  const [base, theirs, ours] = [
    decodeText(await read(change)),
    decodeText(await readFile(staged)),
    decodeText(await ignoreGone(workspace.read(path))),
  ];
  if (base === undefined || ours === undefined || theirs === undefined) return undefined;
  const text = mergeLines(base, ours, theirs);
  const executable = before.executable === after.executable ? found.executable : after.executable;
  return text === undefined ? undefined : { text, executable };
}

function describeConflict(
  before: PathContent | undefined,
  after: PathContent | undefined,
  found: PathContent | undefined,
): string {
  if (before === undefined) return 'added in the session and in the workspace, differently';
  if (after === undefined) return 'deleted in the session, changed in the workspace';
  if (found === undefined) return 'changed in the session, deleted in the workspace';
  return 'changed in the session and in the workspace, in the same place';
}

/** Refuses a link out of the workspace: who follows it there could do what the session may not. */
function refuseOutsideLink(path: string, after: PathContent | undefined): string | undefined {
  if (after?.kind !== 'link') return undefined;
  const target = posix.normalize(posix.join(posix.dirname(path), after.target));
  // After a name that may be a link, the meaning of ".." is not known.
  const parts = after.target.split('/').filter((part) => part !== '' && part !== '.');
  const unclear = parts.some((part, i) => part === '..' && (parts[i - 1] ?? '..') !== '..');
  const out = after.target.startsWith('/') || target === '..' || target.startsWith('../') || unclear;
  return out || after.target.split('/').includes('.git')
    ? 'a symbolic link that leads out of the workspace'
    : undefined;
}

/** Finds conflicts of kinds: a file or link where a folder has to be, or the other way round. */
async function checkParents(
  workspace: SafeRoot,
  planned: PlannedChange,
  plan: readonly PlannedChange[],
): Promise<PlannedChange> {
  const { path, outcome, next } = planned;
  if (next === undefined || (outcome !== 'taken' && outcome !== 'merged')) return planned;
  const goes = (which: (path: string) => boolean) =>
    plan.some((each) => which(each.path) && each.next === undefined && each.outcome === 'taken');
  const parts = path.split('/');
  for (let depth = 1; depth < parts.length; depth++) {
    const above = parts.slice(0, depth).join('/');
    const facts = await ignoreGone(workspace.stat(above, { link: true }));
    if (facts === undefined || facts.kind === 'folder' || goes((other) => other === above)) continue;
    return {
      ...planned,
      outcome: 'conflict',
      reason: `in the workspace, "${above}" is a ${facts.kind} and not a folder`,
    };
  }
  const here = await ignoreGone(workspace.stat(path, { link: true }));
  const inTheWay = here !== undefined && here.kind !== 'file' && here.kind !== 'link';
  if (!inTheWay || goes((other) => other.startsWith(`${path}/`))) return planned;
  return { ...planned, outcome: 'conflict', reason: `the workspace has a ${here.kind} with that name` };
}

/**
 * Git recognises a repository by its content, whatever the folder is called. Paths in such a folder are treated as if
 * they were in `.git`. Each folder is checked once.
 */
function createRepositoryCheck(workspace: SafeRoot, closed: (path: string) => string | undefined): RefuseInRepository {
  const known = new Map<string, Promise<boolean>>();
  const isRepository = (folder: string): Promise<boolean> => {
    const judged = known.get(folder) ?? looksLikeRepository(workspace, folder);
    known.set(folder, judged);
    return judged;
  };
  return async (path) => {
    const parts = path.split('/');
    for (const [depth, name] of parts.entries()) {
      const above = parts.slice(0, depth);
      if (closed([...above, '.git', name].join('/')) === undefined) continue;
      if (await isRepository(above.join('/'))) return 'is part of a git repository, which sessions may not change';
    }
    return undefined;
  };
}

async function looksLikeRepository(workspace: SafeRoot, folder: string): Promise<boolean> {
  const has = async (name: string) => {
    const path = folder === '' ? name : `${folder}/${name}`;
    return (await ignoreGone(workspace.stat(path, { link: true }))) !== undefined;
  };
  return (await has('HEAD')) && ((await has('commondir')) || ((await has('objects')) && (await has('refs'))));
}
