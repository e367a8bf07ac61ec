import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { writeAtomically } from '../../lib/fs/write-atomically.ts';
import type { SafeRoot } from '../saferoot/open-root.ts';
import { withOpen } from '../saferoot/read.ts';
import { ignoreGone } from './walk-tree.ts';

/** The content of a path. Of its permissions only the executable bit counts. */
export type PathContent =
  | {
      readonly kind: 'file';
      readonly sha256: string;
      readonly bytes: number;
      readonly executable: boolean;
      /** While the version is the same, the file is not read again. Absent where it is not known. */
      readonly version?: string | undefined;
    }
  | { readonly kind: 'link'; readonly target: string };

/** The state that a session started from or that was last merged, path by path. */
export type BaseSnapshot = ReadonlyMap<string, PathContent>;

/** Reads the present content; undefined when there is no file or link. */
export async function readContent(root: SafeRoot, path: string, known?: PathContent): Promise<PathContent | undefined> {
  const facts = await ignoreGone(root.stat(path, { link: true }));
  if (facts === undefined) return undefined;
  if (facts.kind === 'link') {
    const target = await ignoreGone(root.readlink(path, { absolute: true }));
    return target === undefined ? undefined : { kind: 'link', target };
  }
  if (facts.kind !== 'file') return undefined;
  if (known?.kind === 'file' && known.version === facts.version) return known;
  const opened = await ignoreGone(root.open(path));
  if (opened === undefined) return undefined;
  return withOpen(opened, async (file) => {
    const hash = createHash('sha256');
    let bytes = 0;
    for await (const chunk of file.chunks()) {
      hash.update(chunk);
      bytes += chunk.length;
    }
    const { mode, version } = file.facts;
    return { kind: 'file', sha256: hash.digest('hex'), bytes, executable: (mode & 0o100) !== 0, version };
  });
}

export function isSameContent(one: PathContent | undefined, other: PathContent | undefined): boolean {
  if (one === undefined || other === undefined) return one === other;
  if (one.kind === 'link' || other.kind === 'link') {
    return one.kind === 'link' && other.kind === 'link' && one.target === other.target;
  }
  return one.sha256 === other.sha256 && one.executable === other.executable;
}

type BaseRow = [
  path: string,
  ...content: [sha256: string, bytes: number, mode: number, version: string] | [link: string],
];

export function writeBase(file: string, base: BaseSnapshot): void {
  const rows = [...base].map(([path, content]): BaseRow => {
    if (content.kind === 'link') return [path, content.target];
    return [path, content.sha256, content.bytes, content.executable ? 1 : 0, content.version ?? ''];
  });
  writeAtomically(file, JSON.stringify(rows));
}

export function readBase(file: string): Map<string, PathContent> {
  const rows = JSON.parse(readFileSync(file, 'utf8')) as BaseRow[];
  return new Map(
    rows.map(([path, first, bytes, mode, version]): [string, PathContent] =>
      bytes === undefined
        ? [path, { kind: 'link', target: first }]
        : [path, { kind: 'file', sha256: first, bytes, executable: mode === 1, version: version || undefined }],
    ),
  );
}
