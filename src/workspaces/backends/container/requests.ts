import type { ErrorCode } from '../../../errors.ts';
import type { PathRules } from '../../path-rules.ts';
import type { StatOptions } from '../../saferoot/file-info.ts';
import type { FileListOptions, FileMoveOptions, FileRemoveOptions, FileWriteOptions } from '../backend.ts';

/** The error codes accepted from the files program. */
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

/** The largest file that is sent with the response that opens it. */
export const maxInlineBytes = 64 * 1024;
/** The largest part of a file read at a time. */
export const maxPieceBytes = 1024 * 1024;
/** The largest listing or settings. */
export const maxDocumentBytes = 32 * 1024 * 1024;
/** The longest path that is sent. */
export const maxPathLength = 8192;

/** The settings of a workspace: the body of the `begin` request, since there may be many rules. */
export interface FilesSettings {
  readonly rules: PathRules;
  readonly durable: boolean;
  readonly fileBytes: number;
}

/** A request to the files program. The body holds the content of a file to write. */
export type FilesRequest = { readonly do: 'begin' } | (RootRequest & { readonly root: number });

/** A request on a root that `begin` opened. */
export type RootRequest =
  | { readonly do: 'finish' }
  | { readonly do: 'stat'; readonly path: string; readonly options: StatOptions }
  | { readonly do: 'open'; readonly path: string }
  | { readonly do: 'read'; readonly file: number; readonly offset: number; readonly length: number }
  | { readonly do: 'close'; readonly file: number }
  | { readonly do: 'write'; readonly path: string; readonly options: FileWriteOptions }
  | { readonly do: 'mayWrite'; readonly path: string; readonly options: FileWriteOptions }
  | { readonly do: 'makeFolder'; readonly path: string }
  | { readonly do: 'remove'; readonly path: string; readonly options: FileRemoveOptions }
  | { readonly do: 'move'; readonly from: string; readonly to: string; readonly options: FileMoveOptions }
  | { readonly do: 'list'; readonly path: string; readonly options: FileListOptions };

/** Requests that may be half done when the container ends. */
export const changingRequests: ReadonlySet<FilesRequest['do']> = new Set(['write', 'makeFolder', 'remove', 'move']);
