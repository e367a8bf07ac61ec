import type { ErrorCode } from '../../../errors.ts';
import type { PathRules } from '../../path-guard.ts';
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

/**
 * The head of a frame between Ambit and the files program. A frame is the length of the head, the length of the body,
 * the head as JSON and the body. Both lengths are four bytes, big-endian.
 */
export type FrameHead = Readonly<Record<string, unknown>>;

export interface FrameReader {
  /** Throws for an invalid or too large frame; nothing can be read after that. */
  push(chunk: Buffer): void;
}

export interface FrameReaderOptions {
  /** Returns the largest body for a head. Throws for an unexpected head. */
  maxBodyBytes(head: FrameHead): number;
  /** The body may be kept: its memory is not reused. */
  onFrame(head: FrameHead, body: Buffer): void;
}

const prefixBytes = 8;
const maxJoinedBytes = 64 * 1024;
export const maxHeadBytes = 256 * 1024;

/** Encodes a frame in few parts, since each part costs a write to the pipe. */
export function encodeFrame(head: FrameHead, body: Uint8Array = new Uint8Array()): Uint8Array[] {
  const text = Buffer.from(JSON.stringify(head));
  const prefix = Buffer.allocUnsafe(prefixBytes);
  prefix.writeUInt32BE(text.length, 0);
  prefix.writeUInt32BE(body.length, 4);
  return body.length <= maxJoinedBytes ? [Buffer.concat([prefix, text, body])] : [Buffer.concat([prefix, text]), body];
}

/** Holds at most one frame, and no more memory than was allowed for it. */
export function createFrameReader({ maxBodyBytes, onFrame }: FrameReaderOptions): FrameReader {
  let buffer = Buffer.allocUnsafe(prefixBytes);
  let filled = 0;
  let section: 'prefix' | 'head' | 'body' = 'prefix';
  let bodyLength = 0;
  let head: FrameHead = {};

  function startSection(next: typeof section, bytes: number): void {
    section = next;
    buffer = Buffer.allocUnsafe(bytes);
    filled = 0;
  }

  function finishSection(): void {
    if (section === 'prefix') {
      const length = buffer.readUInt32BE(0);
      bodyLength = buffer.readUInt32BE(4);
      if (length === 0 || length > maxHeadBytes) throw new Error(`A head of ${length} bytes.`);
      startSection('head', length);
    } else if (section === 'head') {
      head = parseHead(buffer);
      if (bodyLength > maxBodyBytes(head)) throw new Error(`A body of ${bodyLength} bytes.`);
      startSection('body', bodyLength);
    } else {
      const body = buffer;
      startSection('prefix', prefixBytes);
      onFrame(head, body);
    }
  }

  return {
    push(chunk) {
      for (let at = 0; at < chunk.length || filled === buffer.length; ) {
        const copied = chunk.copy(buffer, filled, at);
        filled += copied;
        at += copied;
        if (filled < buffer.length) return;
        finishSection();
      }
    },
  };
}

function parseHead(bytes: Buffer): FrameHead {
  const value: unknown = JSON.parse(bytes.toString('utf8'));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Error('A head is an object.');
  return value as FrameHead;
}
