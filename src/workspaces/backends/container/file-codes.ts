import type { ErrorCode } from '../../../errors.ts';

/** What can go wrong with files; nothing else is believed of the program beside them. */
export const fileCodes = [
  'WORKSPACE_UNAVAILABLE',
  'WORKSPACE_FULL',
  'PATH_VIOLATION',
  'PATH_INVALID',
  'PATH_PROTECTED',
  'FILE_NOT_FOUND',
  'FILE_EXISTS',
  'FILE_WRONG_KIND',
  'FILE_TOO_LARGE',
  'FILE_CHANGED',
  'FILE_FAILED',
  'FOLDER_NOT_EMPTY',
] as const satisfies readonly ErrorCode[];

export const isFileCode = (code: ErrorCode): boolean => (fileCodes as readonly ErrorCode[]).includes(code);
