import { compileGlob, type Glob, type GlobRoom } from '../../lib/text/glob.ts';
import type { Budget } from './search-budget.ts';

/** What one `.gitignore` says of paths below its folder; undefined where it says nothing. */
export interface IgnoreFile {
  (path: string, isFolder: boolean): 'ignored' | 'wanted' | undefined;
  /** How many globs it is made of, and how long they are together, braces expanded. */
  readonly size: GlobRoom;
  /** Its lines, in their order, as a file in the workspace itself says the same; undefined where none can. */
  seenFromTop(folder: string): readonly string[] | undefined;
}

interface Line {
  /** What stands between the signs at its ends. */
  readonly body: string;
  readonly isFromTop: boolean;
  readonly glob: Glob;
  readonly onlyFolders: boolean;
  readonly says: 'ignored' | 'wanted';
}

/** A file like this can be written by an agent, and is asked about every path. */
const mostLines = 1000;
const mostCharacters = 65_536;
/** What the ignore files that one path is held against may come to together, braces expanded. */
export const ignoreRoom: GlobRoom = { globs: 2000, characters: mostCharacters };
/** Lines without braces between two looks at the time. */
const linesPerLook = 32;

/**
 * Lines as git reads them, and as ripgrep does where the two differ: then both searches agree. The last that fits
 * decides. Lines for which there is no room are passed over. Where the search is over meanwhile, the rest is not read.
 */
export async function readIgnoreFile(
  text: string,
  room = ignoreRoom,
  budget?: Pick<Budget, 'goesOn'>,
): Promise<IgnoreFile> {
  const written: Line[] = [];
  let { globs, characters } = room;
  const given = text
    .replace(/^\ufeff/, '')
    .slice(0, mostCharacters)
    .split('\n', mostLines);
  for (const [index, each] of given.entries()) {
    if (globs <= 0 || characters <= 0) break;
    const isDue = each.includes('{') || index % linesPerLook === 0;
    if (isDue && budget !== undefined && !(await budget.goesOn())) break;
    const line = readLine(each, { globs, characters });
    if (line === undefined) continue;
    globs -= line.glob.names.length;
    characters -= line.glob.characters;
    written.push(line);
  }
  const lines = written.toReversed();
  const says = (path: string, isFolder: boolean) => {
    const bytes = asBytes(path);
    return lines.find((line) => (isFolder || !line.onlyFolders) && line.glob.matches(bytes))?.says;
  };
  const seenFromTop = (folder: string) =>
    /[\n\r]/.test(folder) ? undefined : written.map((line) => lineFromTop(folder, line));
  const size = { globs: room.globs - globs, characters: room.characters - characters };
  return Object.assign(says, { size, seenFromTop });
}

function lineFromTop(folder: string, { body, isFromTop, onlyFolders, says }: Line): string {
  const above = folder === '.' ? '' : `/${folder.replace(/[\\*?[\]{}]/g, '\\$&')}`;
  const between = isFromTop || body.includes('/') ? '/' : '/**/';
  return `${says === 'wanted' ? '!' : ''}${above}${between}${body}${onlyFolders ? '/' : ''}`;
}

/** A character for each byte: `?` and `[…]` stand for one byte there, not for a character. */
function asBytes(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text).toString('latin1');
}

function readLine(written: string, most: GlobRoom): Line | undefined {
  if (written.startsWith('#')) return undefined;
  let line = /\\ $/.test(written) ? written : written.trimEnd();
  const isEscaped = /^\\[!#]/.test(line);
  const says = !isEscaped && line.startsWith('!') ? 'wanted' : 'ignored';
  if (isEscaped || says === 'wanted') line = line.slice(1);
  const isFromTop = !isEscaped && line.startsWith('/');
  if (isFromTop) line = line.slice(1);
  const onlyFolders = line.endsWith('/');
  if (onlyFolders) line = line.replace(/\\?\/$/, '');
  if (line === '') return undefined;
  try {
    const glob = compileGlob(asBytes(line), { anywhere: !isFromTop, most });
    return { body: line, glob, isFromTop, onlyFolders, says };
  } catch {
    // A line that cannot be read is passed over, as it is by git.
    return undefined;
  }
}
