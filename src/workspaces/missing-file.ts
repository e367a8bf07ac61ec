import { AmbitError } from '../errors.ts';
import { plainNames } from './plain-names.ts';
import { shownPath } from './shown-path.ts';

/** The names in a folder, those that may be told; undefined where there is no such folder or it may not be read. */
export type NamesIn = (folder: string) => Promise<readonly string[] | undefined>;

const mostParents = 8;
const mostSuggestions = 3;

/** Says what there is instead: the nearest folder on the way, and names in it that are much like the one asked for. */
export async function missingFile(path: string, namesIn: NamesIn): Promise<AmbitError> {
  const names = plainNames(path);
  const tried = [...names.keys()].reverse().slice(0, mostParents);
  for (const depth of names.includes('..') ? [] : tried) {
    const folder = names.slice(0, depth);
    const there = await namesIn(folder.length === 0 ? '.' : folder.join('/'));
    if (there === undefined) continue;
    const similar = similarNames(names[depth] as string, there).map((name) => shownPath([...folder, name].join('/')));
    const where = folder.length === 0 ? 'the workspace itself' : shownPath(folder.join('/'));
    const nearest = depth === names.length - 1 ? '' : ` The nearest folder on the way that does is ${where}.`;
    const instead = similar.length === 0 ? '' : ` There is ${inWords(similar)}.`;
    return new AmbitError('FILE_NOT_FOUND', { what: `${shownPath(path)} does not exist.${nearest}${instead}` });
  }
  return new AmbitError('FILE_NOT_FOUND', { what: `${shownPath(path)} does not exist.` });
}

const inWords = (all: readonly string[]): string =>
  all.length === 1 ? (all[0] as string) : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`;

function similarNames(wanted: string, names: readonly string[]): string[] {
  const sought = wanted.normalize('NFC').toLowerCase();
  const near = Math.max(1, Math.floor(Math.min(sought.length, 30) / 3));
  return names
    .map((name) => ({ name, far: distance(sought, name.normalize('NFC').toLowerCase(), near) }))
    .filter(({ far }) => far <= near)
    .sort((one, other) => one.far - other.far || (one.name < other.name ? -1 : 1))
    .slice(0, mostSuggestions)
    .map(({ name }) => name);
}

/** How many letters must change, or change places with the next one; the same name with another ending counts as one. */
function distance(one: string, other: string, most: number): number {
  if (one === other) return 0;
  const stem = (name: string) => name.replace(/(?<=.)\.[^.]*$/, '');
  if (stem(one) === stem(other)) return 1;
  if (Math.abs(one.length - other.length) > most || one.length > 100) return most + 1;
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (let at = 1; at <= one.length; at++) {
    const next = [at];
    for (let index = 1; index <= other.length; index++) {
      const change = (row[index - 1] as number) + (one[at - 1] === other[index - 1] ? 0 : 1);
      const swapped = at > 1 && index > 1 && one[at - 1] === other[index - 2] && one[at - 2] === other[index - 1];
      const swap = swapped ? (before[index - 2] as number) + 1 : change;
      next.push(Math.min(change, swap, (row[index] as number) + 1, (next[index - 1] as number) + 1));
    }
    [before, row] = [row, next];
  }
  return row.at(-1) as number;
}
