import { escapeControls } from '../../lib/text/escape-controls.ts';
import { below } from '../search/ignore-rules.ts';
import type { WalkedEntry } from '../search/walk-files.ts';

/**
 * Entries as an indented tree, as people draw it. A name is one line whatever it contains: what is read here is taken for
 * what lies there.
 */
export function treeText(start: string, entries: readonly WalkedEntry[]): string {
  const shown = new Set<string>();
  const lines: string[] = [];
  for (const entry of entries) {
    const path = below(start, entry.path);
    const names = path.split('/');
    const depth = names.length - 1;
    // A page may begin in the middle of a folder, whose name it then needs.
    for (let above = 0; above < depth; above++) {
      const folder = names.slice(0, above + 1).join('/');
      if (shown.has(folder)) continue;
      shown.add(folder);
      lines.push(`${'  '.repeat(above)}${escapeControls(names[above] as string)}/`);
    }
    if (entry.kind === 'folder') shown.add(path);
    lines.push(`${'  '.repeat(depth)}${lineOf(entry, names[depth] as string)}`);
  }
  return lines.join('\n');
}

const marks = { file: '', folder: '/', link: ' (link)', special: ' (device, pipe or socket)' } as const;

function lineOf({ kind, bytes, ignored, closed }: WalkedEntry, name: string): string {
  const size = kind === 'file' && bytes !== undefined ? ` (${sizeText(bytes)})` : '';
  return `${escapeControls(name)}${marks[kind]}${size}${closed ? ' (closed)' : ''}${ignored ? ' (ignored)' : ''}`;
}

function sizeText(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(units.length, Math.floor(Math.log2(bytes) / 10));
  return `${(bytes / 1024 ** power).toFixed(1)} ${units[power - 1]}`;
}
