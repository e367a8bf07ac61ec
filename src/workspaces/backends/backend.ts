import type { Glob } from '../../lib/text/glob.ts';
import type { FileKind, StatOptions } from '../saferoot/file-info.ts';
import type { FolderListOptions } from '../saferoot/list-folder.ts';
import type { MadeFolder } from '../saferoot/make-folder-or-link.ts';
import type { MoveResult, RenameOptions } from '../saferoot/move.ts';
import type { RemoveResult } from '../saferoot/remove.ts';

/** A search, for engines that can quickly find the files that may match. */
export interface CandidateQuery {
  /** The pattern in the syntax of Rust. */
  readonly rust: string;
  /** The folder, by its resolved path in the workspace. */
  readonly path: string;
  /** Matched against paths relative to that folder. */
  readonly glob: Glob | undefined;
  /**
   * Combines the ignore files at these paths into lines for one file in the workspace root; undefined where nothing may
   * be left out. The engine itself opens none of them: a pipe in the place of one never ends.
   */
  readonly readRules: (ignoreFiles: readonly string[]) => Promise<readonly string[] | undefined>;
  readonly signal: AbortSignal | undefined;
}

/**
 * The files of a session. Paths are relative, with `/` between names; "." is the workspace itself. Every rule holds for
 * the resolved path as for the one asked for, and no path leads out. Failures are `AmbitError`s that contain no path of
 * the host.
 */
export interface WorkspaceBackend {
  readonly kind: BackendKind;
  stat(path: string, options?: StatOptions): Promise<FoundFile>;
  /** Opens a regular file for reading. The caller closes it. */
  open(path: string): Promise<OpenedFile>;
  /** Writes the whole content at once: readers see the old or the new one, never half. Missing folders are made. */
  write(path: string, content: Uint8Array, options?: FileWriteOptions): Promise<WriteResult>;
  /** Returns the path `write` would write to, or throws what it would throw. Nothing is made or changed. */
  mayWrite(path: string, options?: FileWriteOptions): Promise<WorkspacePath>;
  /** Makes a folder and its missing parents. An existing folder is fine. */
  makeFolder(path: string): Promise<MadeFolder>;
  /** Removes a file, a link itself or an empty folder; with `recursive` also a folder with all its entries. */
  remove(path: string, options?: FileRemoveOptions): Promise<RemoveResult>;
  /** Moves a file, a folder or a link itself. Missing parents of the new name are made. */
  move(from: string, to: string, options?: FileMoveOptions): Promise<MoveResult>;
  list(path: string, options?: FileListOptions): Promise<ListResult>;
  /**
   * Finds the files that may hold a match: all that do, and perhaps more, faster than by reading each. Undefined where
   * it cannot. Only names may be taken from here; content comes from `open`.
   */
  readonly candidates?: ((query: CandidateQuery) => Promise<readonly string[] | undefined>) | undefined;
  /** Tells whether the folder was replaced, so that the backend has to be opened again. */
  readonly isElsewhere?: (() => boolean) | undefined;
  close(): Promise<void>;
}

export type FileMoveOptions = Pick<RenameOptions, 'overwrite'>;
export type FileListOptions = Omit<FolderListOptions, 'without'>;
export type BackendKind = 'local' | 'container' | 'database';

/** The resolved path inside the workspace, links followed. */
export interface WorkspacePath {
  readonly path: string;
}

export interface FoundFile extends WorkspacePath {
  readonly kind: FileKind;
  readonly bytes: number;
  readonly mode: number;
  readonly modifiedMs: number;
  /** Differs after the file was replaced or written; only for comparing. */
  readonly version: string;
}

/** An open file. Its content stays the same whatever happens to its name. */
export interface OpenedFile {
  readonly facts: FoundFile;
  /** Returns fewer bytes than asked for only at the end of the file. */
  read(offset: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface FileWriteOptions {
  /** `absent` writes only a new file, a version only the file that has it. By default any file is replaced. */
  readonly expected?: 'absent' | { readonly version: string };
  /** The mode of a new file; a replaced file keeps its own. */
  readonly mode?: number;
}

export interface WriteResult extends FoundFile {
  readonly created: boolean;
  readonly folders: number;
}

export interface FileRemoveOptions {
  readonly recursive?: boolean;
  /** A larger folder is not removed at all. */
  readonly maxEntries?: number;
}

export interface ListResult extends WorkspacePath {
  readonly entries: readonly ListedEntry[];
  /** The folder has more entries than the limit. */
  readonly more: boolean;
}

export interface ListedEntry {
  readonly name: string;
  readonly kind: FileKind;
  readonly bytes?: number;
  readonly modifiedMs?: number;
  /** The name is not UTF-8: `name` displays it, but no path can contain it. */
  readonly unrepresentable?: true;
  /** Sessions may not read it, so only the name is listed. */
  readonly hidden?: true;
}
