import { AmbitError, type ErrorCode } from '../../errors.ts';
import { attachResolution } from '../resolutions.ts';
import { quotePath, type SafeRootCode, SafeRootError } from '../saferoot/saferoot-error.ts';
import { splitIntoNames } from '../saferoot/walk-path.ts';

/** Refuses a protected path. All backends use the errors of this file. */
export function protectedPathError(path: string, why: string, resolved: string): AmbitError {
  return attachResolution(new AmbitError('PATH_PROTECTED', { what: `${quotePath(path)} ${why}.` }), {
    asked: path,
    resolved,
  });
}

function protectedContentError(path: string, resolved: string): AmbitError {
  const what = `${quotePath(path)} contains ${quotePath(resolved)}, which sessions may not change. Nothing was done.`;
  return attachResolution(new AmbitError('PATH_PROTECTED', { what }), { asked: path, resolved });
}

function absolutePathError(relative: string | undefined): AmbitError {
  const what = 'The path is absolute, but paths must be relative to the workspace.';
  if (relative === undefined) return new AmbitError('PATH_VIOLATION', { what });
  return new AmbitError('PATH_VIOLATION', { what, hint: `Use ${quotePath(relative)}.` });
}

export function tooLargeError(bytes: number, maxBytes: number): AmbitError {
  return new AmbitError('FILE_TOO_LARGE', {
    what: `The file would have ${bytes} bytes; ${maxBytes} are allowed.`,
    hint: 'Split it into several smaller files, or ask the operator to raise the limit.',
    rule: 'workspaces.*.files.fileBytes',
  });
}

export function notAFileNameError(path: string): AmbitError {
  return new AmbitError('PATH_INVALID', {
    what: `${quotePath(path)} is not the path of a file: it ends like the path of a folder.`,
    hint: 'Use the path of a file, such as "src/index.ts".',
  });
}

/** Tells whether the last part of a path can only be a folder. */
export function endsLikeFolder(path: string): boolean {
  return /(?:^|\/)\.{0,2}$/.test(path);
}

function tooManyEntriesError(path: string): AmbitError {
  return new AmbitError('FILE_TOO_LARGE', {
    what: `${quotePath(path)} contains too many files to remove or move at once. Nothing was done.`,
    hint: 'Remove or move its subfolders one by one.',
  });
}

export function fileChangedError(path: string): AmbitError {
  return new AmbitError('FILE_CHANGED', {
    what: `${quotePath(path)} was changed or removed by someone else in the meantime.`,
  });
}

/** Reads the visible names of a folder; undefined where there is no such folder or it may not be read. */
type ReadFolderNames = (folder: string) => Promise<readonly string[] | undefined>;

const maxParents = 8;
const maxSuggestions = 3;

const joinWords = (all: readonly string[]): string =>
  all.length === 1 ? (all[0] as string) : `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`;

const errorCodes: Readonly<Record<SafeRootCode, ErrorCode>> = {
  PATH_VIOLATION: 'PATH_VIOLATION',
  PATH_INVALID: 'PATH_INVALID',
  NAME_TOO_LONG: 'PATH_INVALID',
  TOO_DEEP: 'PATH_INVALID',
  TOO_MANY_LINKS: 'PATH_INVALID',
  FILE_NOT_FOUND: 'FILE_NOT_FOUND',
  NOT_A_DIRECTORY: 'FILE_WRONG_KIND',
  IS_A_DIRECTORY: 'FILE_WRONG_KIND',
  NOT_A_LINK: 'FILE_WRONG_KIND',
  NOT_ADMITTED: 'PATH_PROTECTED',
  EXISTS: 'FILE_EXISTS',
  NOT_EMPTY: 'FOLDER_NOT_EMPTY',
  SPECIAL_FILE: 'FILE_WRONG_KIND',
  HARD_LINKED: 'FILE_WRONG_KIND',
  TOO_LARGE: 'FILE_TOO_LARGE',
  TOO_MANY_ENTRIES: 'FILE_TOO_LARGE',
  INTO_ITSELF: 'PATH_INVALID',
  CHANGED: 'FILE_CHANGED',
  BUSY: 'FILE_FAILED',
  NO_PERMISSION: 'FILE_FAILED',
  READ_ONLY: 'FILE_FAILED',
  NO_SPACE: 'WORKSPACE_FULL',
  OTHER_DEVICE: 'FILE_FAILED',
  CLOSED: 'WORKSPACE_UNAVAILABLE',
  UNSUPPORTED: 'WORKSPACE_UNAVAILABLE',
  FAILED: 'FILE_FAILED',
};

const hints: Partial<Record<SafeRootCode, string>> = {
  IS_A_DIRECTORY: 'List its content with session_list_dir.',
  TOO_MANY_LINKS: 'Use the path of the file itself instead of the link.',
  NO_PERMISSION:
    'Continue without it, or ask the operator: the account that runs the gateway has no permission for it.',
  READ_ONLY: 'Choose another place.',
  NO_SPACE: 'Nothing was changed. The operator must free some space.',
  INTO_ITSELF: 'Choose a new name outside the folder that is moved.',
};

export interface ExplainParts {
  readonly readFolderNames: ReadFolderNames;
  /** Finds the workspace path for an absolute path, if there is one. */
  readonly findRelativePath: (absolute: string) => Promise<string | undefined>;
}

/** Runs work and converts its errors for the caller, with suggestions. */
export function createErrorExplainer({ readFolderNames, findRelativePath }: ExplainParts) {
  return async function explain<T>(asked: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SafeRootError)) throw error;
      const about = error.path ?? asked;
      if (error.code === 'FILE_NOT_FOUND') throw await missingFileError(about, readFolderNames);
      if (error.code === 'PATH_VIOLATION' && about.startsWith('/'))
        throw absolutePathError(await findRelativePath(about));
      throw toAmbitError(error, about);
    }
  };
}

/** Neither error contains a path of the host. */
function toAmbitError(error: SafeRootError, about: string): AmbitError {
  if (error.code === 'NOT_ADMITTED') return toAccessError(error, about);
  if (error.code === 'TOO_MANY_ENTRIES') return tooManyEntriesError(about);
  if (error.code === 'CHANGED') return fileChangedError(about);
  if (error.code === 'CLOSED') return new AmbitError('WORKSPACE_UNAVAILABLE', { cause: error });
  const what = error.message.replace(/the folder(?= itself\.$|\.$)/, 'the workspace');
  const hint = hints[error.code];
  return new AmbitError(errorCodes[error.code], { what, cause: error, ...(hint === undefined ? {} : { hint }) });
}

function toAccessError({ what, resolved = '.' }: SafeRootError, path: string): AmbitError {
  const below = resolved.startsWith(`${splitIntoNames(path).join('/')}/`);
  if (below && !path.includes('..')) return protectedContentError(path, resolved);
  return protectedPathError(path, what, resolved);
}

/** Names the nearest existing folder, and similar names in it. */
async function missingFileError(path: string, readFolderNames: ReadFolderNames): Promise<AmbitError> {
  const names = splitIntoNames(path);
  const tried = [...names.keys()].reverse().slice(0, maxParents);
  for (const depth of names.includes('..') ? [] : tried) {
    const folder = names.slice(0, depth);
    const there = await readFolderNames(folder.length === 0 ? '.' : folder.join('/'));
    if (there === undefined) continue;
    const similar = findSimilarNames(names[depth] as string, there).map((name) =>
      quotePath([...folder, name].join('/')),
    );
    const where = folder.length === 0 ? 'the workspace itself' : quotePath(folder.join('/'));
    const nearest = depth === names.length - 1 ? '' : ` The nearest existing folder on that path is ${where}.`;
    const instead = similar.length === 0 ? '' : ` There is ${joinWords(similar)}.`;
    return new AmbitError('FILE_NOT_FOUND', { what: `${quotePath(path)} does not exist.${nearest}${instead}` });
  }
  return new AmbitError('FILE_NOT_FOUND', { what: `${quotePath(path)} does not exist.` });
}

function findSimilarNames(wanted: string, names: readonly string[]): string[] {
  const sought = wanted.normalize('NFC').toLowerCase();
  const near = Math.max(1, Math.floor(Math.min(sought.length, 30) / 3));
  return names
    .map((name) => ({ name, far: editDistance(sought, name.normalize('NFC').toLowerCase(), near) }))
    .filter(({ far }) => far <= near)
    .sort((one, other) => one.far - other.far || (one.name < other.name ? -1 : 1))
    .slice(0, maxSuggestions)
    .map(({ name }) => name);
}

/** Counts changed letters and swaps; another file ending counts as one. */
function editDistance(one: string, other: string, maxDistance: number): number {
  if (one === other) return 0;
  const stem = (name: string) => name.replace(/(?<=.)\.[^.]*$/, '');
  if (stem(one) === stem(other)) return 1;
  if (Math.abs(one.length - other.length) > maxDistance || one.length > 100) return maxDistance + 1;
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
