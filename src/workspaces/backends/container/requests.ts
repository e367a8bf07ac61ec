import type { ErrorCode } from '../../../errors.ts';
import type { PathRules } from '../../path-rules.ts';
import type { StatOptions } from '../../saferoot/file-info.ts';
import type { FileListOptions, FileMoveOptions, FileRemoveOptions, WriteOptions } from '../backend.ts';

/** What can go wrong with files; nothing else is believed of the program beside them. */
export const fileErrorCodes = [
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

export const isFileErrorCode = (code: ErrorCode): boolean => (fileErrorCodes as readonly ErrorCode[]).includes(code);

/** A file no larger than this comes with the answer that opens it. */
export const maxInlineBytes = 64 * 1024;
/** The most that is read of a file at a time. */
export const maxPieceBytes = 1024 * 1024;
/** The most that a listing or the settings may have. */
export const maxDocumentBytes = 32 * 1024 * 1024;
/** Further on, no path says anything more. */
export const maxPathLength = 8192;

/** How the files are kept; the body of the request that begins, since rules may be many. */
export interface FilesSettings {
  readonly rules: PathRules;
  readonly durable: boolean;
  readonly fileBytes: number;
}

/** What the program beside the files can be asked. The content of a file that is written is the body. */
export type FilesRequest = { readonly do: 'begin' } | (RootRequest & { readonly root: number });

/** On the files as one of those who began is given them. */
export type RootRequest =
  | { readonly do: 'finish' }
  | { readonly do: 'stat'; readonly path: string; readonly options: StatOptions }
  | { readonly do: 'open'; readonly path: string }
  | { readonly do: 'read'; readonly file: number; readonly offset: number; readonly length: number }
  | { readonly do: 'close'; readonly file: number }
  | { readonly do: 'write'; readonly path: string; readonly options: WriteOptions }
  | { readonly do: 'mayWrite'; readonly path: string; readonly options: WriteOptions }
  | { readonly do: 'makeFolder'; readonly path: string }
  | { readonly do: 'remove'; readonly path: string; readonly options: FileRemoveOptions }
  | { readonly do: 'move'; readonly from: string; readonly to: string; readonly options: FileMoveOptions }
  | { readonly do: 'list'; readonly path: string; readonly options: FileListOptions };

/** What may be half done when nobody answers any more. */
export const changingRequests: ReadonlySet<FilesRequest['do']> = new Set(['write', 'makeFolder', 'remove', 'move']);
