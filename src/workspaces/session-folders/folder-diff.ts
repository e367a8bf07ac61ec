import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { formatUnifiedDiff, quoteFileName } from '../../lib/text/line-diff.ts';
import type { SafeRoot } from '../saferoot/open-root.ts';
import type { FolderChange } from './changes.ts';
import { decodeText, maxTextBytes, type ReadOriginal } from './original-files.ts';
import type { PathContent } from './snapshot.ts';
import { ignoreGone } from './walk-tree.ts';

interface FileDiff {
  readonly path: string;
  readonly status: 'added' | 'modified' | 'deleted';
  /** A mode as git writes it: 100644, 100755, or 120000 for a link. */
  readonly oldMode: string | null;
  readonly newMode: string | null;
  /** The content is no text, or too large. */
  readonly binary: boolean;
  /** The number of lines; null where they cannot be counted. */
  readonly added: number | null;
  readonly removed: number | null;
}

export interface RenderedDiff {
  readonly files: readonly FileDiff[];
  /** A unified diff that git can apply. */
  readonly patch: string;
  /** The patch was cut because it is too long. */
  readonly shortened: boolean;
}

/** The files that changed between the comparison and the diff, with a content that no file has. */
type ChangedMeanwhile = Map<string, PathContent>;

const maxPatchBytes = 32 * 1024 * 1024;

export async function diffChanges(
  root: SafeRoot,
  changes: readonly FolderChange[],
  read: ReadOriginal,
): Promise<RenderedDiff & { readonly meanwhile: ChangedMeanwhile }> {
  const meanwhile: ChangedMeanwhile = new Map();
  const files: FileDiff[] = [];
  const parts: string[] = [];
  let [bytes, shortened] = [0, false];
  for (const change of changes) {
    const { file, text } = await diffChange(root, change, read, meanwhile);
    files.push(file);
    bytes += text.length;
    if (bytes > maxPatchBytes) shortened = true;
    else parts.push(text);
  }
  return { files, patch: parts.join(''), shortened, meanwhile };
}

async function diffChange(
  root: SafeRoot,
  change: FolderChange,
  read: ReadOriginal,
  meanwhile: ChangedMeanwhile,
): Promise<{ readonly file: FileDiff; readonly text: string }> {
  const { path, before, after } = change;
  const status = before === undefined ? 'added' : after === undefined ? 'deleted' : 'modified';
  const [oldMode, newMode] = [modeOf(before), modeOf(after)];
  const [old, fresh] = [await readTextBefore(change, read), await readTextAfter(root, change, meanwhile)];
  const same = before?.kind === 'file' && after?.kind === 'file' && before.sha256 === after.sha256;
  const binary = !same && (old === undefined || fresh === undefined);
  const diff = same || binary ? undefined : formatUnifiedDiff(old as string, fresh as string);
  const [added, removed] = same ? [0, 0] : [diff?.added ?? null, diff?.removed ?? null];
  const [from, to] = [quoteFileName(`a/${path}`), quoteFileName(`b/${path}`)];
  const names = [before === undefined ? '/dev/null' : from, after === undefined ? '/dev/null' : to];
  const text = [
    `diff --git ${from} ${to}\n`,
    ...(oldMode === null ? [`new file mode ${newMode}\n`] : []),
    ...(newMode === null ? [`deleted file mode ${oldMode}\n`] : []),
    ...(oldMode !== null && newMode !== null && oldMode !== newMode
      ? [`old mode ${oldMode}\nnew mode ${newMode}\n`]
      : []),
    ...(binary ? [`Binary files ${names[0]} and ${names[1]} differ\n`] : []),
    ...(diff === undefined || diff.text === '' ? [] : [`--- ${names[0]}\n+++ ${names[1]}\n${diff.text}`]),
  ];
  return { file: { path, status, oldMode, newMode, binary, added, removed }, text: text.join('') };
}

async function readTextBefore(change: FolderChange, read: ReadOriginal): Promise<string | undefined> {
  const { before } = change;
  if (before === undefined) return '';
  return before.kind === 'link' ? before.target : decodeText(await read(change));
}

async function readTextAfter(
  root: SafeRoot,
  { path, after }: FolderChange,
  meanwhile: ChangedMeanwhile,
): Promise<string | undefined> {
  if (after === undefined) return '';
  if (after.kind === 'link') return after.target;
  if (after.bytes > maxTextBytes) return undefined;
  const bytes = await ignoreGone(root.read(path, { length: maxTextBytes }));
  // A session could show one content and have another one merged.
  const isSame = bytes !== undefined && sha256Hex(bytes) === after.sha256;
  if (!isSame) meanwhile.set(path, { ...after, sha256: '' });
  return decodeText(bytes);
}

function modeOf(content: PathContent | undefined): string | null {
  if (content === undefined) return null;
  if (content.kind === 'link') return '120000';
  return content.executable ? '100755' : '100644';
}
