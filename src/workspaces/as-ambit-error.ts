import { AmbitError, type ErrorCode } from '../errors.ts';
import { changedMeanwhile, closedInside, closedPath, tooManyEntries } from './backends/refusals.ts';
import { plainNames } from './plain-names.ts';
import { type SafeRootCode, SafeRootError } from './saferoot/saferoot-error.ts';

const codes: Readonly<Record<SafeRootCode, ErrorCode>> = {
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
  IS_A_DIRECTORY: 'Look into it with session_list_dir.',
  TOO_MANY_LINKS: 'Ask for the file itself instead of the link.',
  NO_PERMISSION: 'Leave it, or ask the operator: the gateway runs under an account that may not use it.',
  READ_ONLY: 'Nothing can be written there.',
  NO_SPACE: 'Nothing was changed. The operator must make room.',
  INTO_ITSELF: 'Choose a new name outside the folder that is moved.',
};

/** What went wrong in the folder, in the words of the gateway. SafeRootErrors name no path of the host, nor does this. */
export function asAmbitError(error: unknown, path: string): unknown {
  if (!(error instanceof SafeRootError)) return error;
  const about = error.path ?? path;
  if (error.code === 'NOT_ADMITTED') return notAdmitted(error, about);
  if (error.code === 'TOO_MANY_ENTRIES') return tooManyEntries(about);
  if (error.code === 'CHANGED') return changedMeanwhile(about);
  if (error.code === 'CLOSED') return new AmbitError('WORKSPACE_UNAVAILABLE', { cause: error });
  const what = error.message.replace(/the folder(?= itself\.$|\.$)/, 'the workspace');
  const hint = hints[error.code];
  return new AmbitError(codes[error.code], { what, cause: error, ...(hint === undefined ? {} : { hint }) });
}

function notAdmitted({ what, inside = '.' }: SafeRootError, path: string): AmbitError {
  const below = inside.startsWith(`${plainNames(path).join('/')}/`);
  if (below && !path.includes('..')) return closedInside(path, inside);
  return closedPath(path, what, inside);
}
