import { compileGlob, type Glob, type GlobRoom } from '../../lib/text/glob.ts';
import type { SearchBudget } from './search-budget.ts';

/** What one `.gitignore` says of paths below its folder; undefined where it says nothing. */
export interface IgnoreFile {
  (path: string, isFolder: boolean): 'ignored' | 'wanted' | undefined;
  /** How many globs it is made of, and how long they are together, braces expanded. */
  readonly size: GlobRoom;
  /** Its lines, in their order, as a file in the workspace itself says the same; undefined where none can. */
  toRootLines(folder: string): readonly string[] | undefined;
}

interface IgnoreLine {
  /** What stands between the signs at its ends. */
  readonly body: string;
  readonly isFromTop: boolean;
  readonly glob: Glob;
  readonly onlyFolders: boolean;
  readonly verdict: 'ignored' | 'wanted';
}

/** A file like this can be written by an agent, and is asked about every path. */
const maxLines = 1000;
const maxCharacters = 65_536;
/** What the ignore files that one path is held against may come to together, braces expanded. */
export const maxRulesSize: GlobRoom = { globs: 2000, characters: maxCharacters };
/** Lines without braces between two looks at the time. */
const linesPerCheck = 32;

/**
 * Lines as git reads them, and as ripgrep does where the two differ: then both searches agree. The last that fits
 * decides. Lines for which there is no room are passed over. Where the search is over meanwhile, the rest is not read.
 */
export async function parseIgnoreFile(
  text: string,
  maxSize = maxRulesSize,
  budget?: Pick<SearchBudget, 'canContinue'>,
): Promise<IgnoreFile> {
  const parsed: IgnoreLine[] = [];
  let { globs, characters } = maxSize;
  const textLines = text
    .replace(/^\ufeff/, '')
    .slice(0, maxCharacters)
    .split('\n', maxLines);
  for (const [index, each] of textLines.entries()) {
    if (globs <= 0 || characters <= 0) break;
    const isDue = each.includes('{') || index % linesPerCheck === 0;
    if (isDue && budget !== undefined && !(await budget.canContinue())) break;
    const line = parseLine(each, { globs, characters });
    if (line === undefined) continue;
    globs -= line.glob.names.length;
    characters -= line.glob.characters;
    parsed.push(line);
  }
  const lines = parsed.toReversed();
  const findVerdict = (path: string, isFolder: boolean) => {
    const bytes = toByteString(path);
    return lines.find((line) => (isFolder || !line.onlyFolders) && line.glob.matches(bytes))?.verdict;
  };
  const toRootLines = (folder: string) =>
    /[\n\r]/.test(folder) ? undefined : parsed.map((line) => toRootLine(folder, line));
  const size = { globs: maxSize.globs - globs, characters: maxSize.characters - characters };
  return Object.assign(findVerdict, { size, toRootLines });
}

function toRootLine(folder: string, { body, isFromTop, onlyFolders, verdict }: IgnoreLine): string {
  const prefix = folder === '.' ? '' : `/${folder.replace(/[\\*?[\]{}]/g, '\\$&')}`;
  const separator = isFromTop || body.includes('/') ? '/' : '/**/';
  return `${verdict === 'wanted' ? '!' : ''}${prefix}${separator}${body}${onlyFolders ? '/' : ''}`;
}

/** A character for each byte: `?` and `[…]` stand for one byte there, not for a character. */
function toByteString(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text).toString('latin1');
}

function parseLine(text: string, maxSize: GlobRoom): IgnoreLine | undefined {
  if (text.startsWith('#')) return undefined;
  let line = /\\ $/.test(text) ? text : text.trimEnd();
  const isEscaped = /^\\[!#]/.test(line);
  const says = !isEscaped && line.startsWith('!') ? 'wanted' : 'ignored';
  if (isEscaped || says === 'wanted') line = line.slice(1);
  const isFromTop = !isEscaped && line.startsWith('/');
  if (isFromTop) line = line.slice(1);
  const onlyFolders = line.endsWith('/');
  if (onlyFolders) line = line.replace(/\\?\/$/, '');
  if (line === '') return undefined;
  try {
    const glob = compileGlob(toByteString(line), { anywhere: !isFromTop, most: maxSize });
    return { body: line, glob, isFromTop, onlyFolders, verdict: says };
  } catch {
    // A line that cannot be read is passed over, as it is by git.
    return undefined;
  }
}
