import { compileGlob, type Glob } from '../../text/glob.ts';

/** What one `.gitignore` says of paths below its folder; undefined where it says nothing. */
export interface IgnoreFile {
  (path: string, isFolder: boolean): 'ignored' | 'wanted' | undefined;
  /** How many globs it is made of. */
  readonly globs: number;
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
export const mostGlobs = 2000;
const mostTried = 2 * mostGlobs;
const mostCharacters = 65_536;

/** Lines as git reads them, and as ripgrep does where the two differ: then both searches agree. The last that fits decides. */
export function readIgnoreFile(text: string, most = mostGlobs): IgnoreFile {
  let globs = 0;
  let tried = 0;
  const written = text
    .replace(/^\ufeff/, '')
    .slice(0, mostCharacters)
    .split('\n', mostLines)
    // A line that has no room is read too, to know that; but not one after the other without end.
    .flatMap((line) => {
      const read = tried > mostTried ? [] : readLine(line);
      for (const { glob } of read) tried += glob.names.length;
      return read;
    })
    .filter(({ glob }) => {
      if (globs + glob.names.length > most) return false;
      globs += glob.names.length;
      return true;
    });
  const lines = written.toReversed();
  const says = (path: string, isFolder: boolean) => {
    const bytes = asBytes(path);
    return lines.find((line) => (isFolder || !line.onlyFolders) && line.glob.matches(bytes))?.says;
  };
  const seenFromTop = (folder: string) =>
    /[\n\r]/.test(folder) ? undefined : written.map((line) => lineFromTop(folder, line));
  return Object.assign(says, { globs, seenFromTop });
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

function readLine(written: string): Line[] {
  if (written.startsWith('#')) return [];
  let line = /\\ $/.test(written) ? written : written.trimEnd();
  const isEscaped = /^\\[!#]/.test(line);
  const says = !isEscaped && line.startsWith('!') ? 'wanted' : 'ignored';
  if (isEscaped || says === 'wanted') line = line.slice(1);
  const isFromTop = !isEscaped && line.startsWith('/');
  if (isFromTop) line = line.slice(1);
  const onlyFolders = line.endsWith('/');
  if (onlyFolders) line = line.replace(/\\?\/$/, '');
  if (line === '') return [];
  try {
    const glob = compileGlob(asBytes(line), { anywhere: !isFromTop });
    return [{ body: line, glob, isFromTop, onlyFolders, says }];
  } catch {
    // A line that cannot be read is passed over, as it is by git.
    return [];
  }
}
