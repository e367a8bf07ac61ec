import type { Glob } from '../../lib/text/glob.ts';
import type { FileInfo, ResolvedPath, StatOptions } from '../saferoot/file-info.ts';
import type { MoveResult, RenameOptions } from '../saferoot/move.ts';
import type { MadeFolder } from '../saferoot/open-root.ts';
import type { FolderEntry, FolderListing, FolderListOptions } from '../saferoot/read.ts';
import type { RemoveResult, RemoveTreeOptions } from '../saferoot/remove.ts';
import type { WrittenFile } from '../saferoot/write-file.ts';

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
  readonly kind: 'local' | 'container' | 'database';
  stat(path: string, options?: StatOptions): Promise<FoundFile>;
  /** Opens a regular file for reading. The caller closes it. */
  open(path: string): Promise<OpenedFile>;
  /** Writes the whole content at once: readers see the old or the new one, never half. Missing folders are made. */
  write(path: string, content: Uint8Array, options?: FileWriteOptions): Promise<WriteResult>;
  /** Returns the path `write` would write to, or throws what it would throw. Nothing is made or changed. */
  mayWrite(path: string, options?: FileWriteOptions): Promise<ResolvedPath>;
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

export interface FoundFile extends ResolvedPath, Pick<FileInfo, 'kind' | 'mode' | 'modifiedMs' | 'version'> {
  readonly bytes: number;
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

export type WriteResult = FoundFile & Pick<WrittenFile, 'created' | 'folders'>;

export interface FileRemoveOptions extends RemoveTreeOptions {
  readonly recursive?: boolean;
}

export interface ListResult extends Pick<FolderListing, 'path' | 'more'> {
  readonly entries: readonly ListedEntry[];
}

export interface ListedEntry extends Pick<FolderEntry, 'name' | 'kind' | 'modifiedMs' | 'unrepresentable'> {
  readonly bytes?: number;
  /** Sessions may not read it, so only the name is listed. */
  readonly hidden?: true;
}
