import { compileGlob, type Glob, type GlobLimits } from '../../lib/text/glob.ts';
import type { SearchBudget } from './search-budget.ts';

/** The verdict of one `.gitignore` on paths below its folder; undefined where no line matches. */
export interface IgnoreFile {
  (path: string, isFolder: boolean): 'ignored' | 'wanted' | undefined;
  /** The number of globs and their total length, braces expanded. */
  readonly size: GlobLimits;
  /** Returns its lines as they would be in the workspace root; undefined where that is impossible. */
  toRootLines(folder: string): readonly string[] | undefined;
}

interface IgnoreLine {
  /** The pattern without its leading and trailing signs. */
  readonly body: string;
  readonly isFromTop: boolean;
  readonly glob: Glob;
  readonly onlyFolders: boolean;
  readonly verdict: 'ignored' | 'wanted';
}

/** Agents can write these files, and every path is matched against them. */
const maxLines = 1000;
const maxCharacters = 65_536;
/** The largest total size of the ignore files for one path, braces expanded. */
export const maxRulesSize: GlobLimits = { globs: 2000, characters: maxCharacters };
/** The number of lines between two checks of the budget. */
const linesPerCheck = 32;

/**
 * Parses lines as git does, and as ripgrep does where the two differ, so that both searches agree. The last matching
 * line decides. Lines beyond the size limit are skipped. When the search ends meanwhile, the rest is not read.
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

/** Converts to one character per byte, since `?` and `[…]` match one byte. */
function toByteString(text: string): string {
  return /^[\x00-\x7f]*$/.test(text) ? text : Buffer.from(text).toString('latin1');
}

function parseLine(text: string, maxSize: GlobLimits): IgnoreLine | undefined {
  if (text.startsWith('#')) return undefined;
  let line = /\\ $/.test(text) ? text : text.trimEnd();
  const isEscaped = /^\\[!#]/.test(line);
  const verdict = !isEscaped && line.startsWith('!') ? 'wanted' : 'ignored';
  if (isEscaped || verdict === 'wanted') line = line.slice(1);
  const isFromTop = !isEscaped && line.startsWith('/');
  if (isFromTop) line = line.slice(1);
  const onlyFolders = line.endsWith('/');
  if (onlyFolders) line = line.replace(/\\?\/$/, '');
  if (line === '') return undefined;
  try {
    const glob = compileGlob(toByteString(line), { matchAnyFolder: !isFromTop, limits: maxSize });
    return { body: line, glob, isFromTop, onlyFolders, verdict };
  } catch {
    // Invalid lines are skipped, as in git.
    return undefined;
  }
}
