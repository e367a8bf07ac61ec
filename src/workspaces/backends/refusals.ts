import { AmbitError } from '../../errors.ts';
import { attachResolution } from '../resolutions.ts';
import { quotePath } from '../saferoot/saferoot-error.ts';

/** Refuses a protected path. All backends use the errors of this file. */
export function protectedPathError(path: string, why: string, resolved: string): AmbitError {
  return attachResolution(new AmbitError('PATH_PROTECTED', { what: `${quotePath(path)} ${why}.` }), {
    asked: path,
    resolved,
  });
}

export function protectedContentError(path: string, resolved: string): AmbitError {
  const what = `${quotePath(path)} contains ${quotePath(resolved)}, which sessions may not change. Nothing was done.`;
  return attachResolution(new AmbitError('PATH_PROTECTED', { what }), { asked: path, resolved });
}

export function absolutePathError(relative: string | undefined): AmbitError {
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

export function tooManyEntriesError(path: string): AmbitError {
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
