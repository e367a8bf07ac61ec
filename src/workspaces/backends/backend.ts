import type { Glob } from '../../lib/text/glob.ts';
import type { FileKind, StatOptions } from '../saferoot/file-info.ts';
import type { MadeFolder } from '../saferoot/make-folder-or-link.ts';

/** What is searched for, for whoever can tell quickly which files may hold it. */
export interface CandidateQuery {
  /** As Rust's regular expressions are written. */
  readonly rust: string;
  /** The folder, by its real path in the workspace. */
  readonly path: string;
  /** Over paths relative to that folder. */
  readonly glob: Glob | undefined;
  /**
   * What the ignore files at these paths say together: lines of one in the workspace itself; undefined where nothing may
   * be left out. Whoever searches opens none of them: a pipe in the place of one never ends.
   */
  readonly readRules: (ignoreFiles: readonly string[]) => Promise<readonly string[] | undefined>;
  readonly signal: AbortSignal | undefined;
}

/**
 * Where the files of a session lie. Paths are relative, with `/` between names; "." is the workspace itself. Whatever is
 * done holds for the path that links lead to as for the one asked for, and no path leads out. Failures are `AmbitError`s
 * that name no path of the host.
 */
export interface WorkspaceBackend {
  readonly kind: BackendKind;
  stat(path: string, options?: StatOptions): Promise<FoundFile>;
  /** A regular file that may be read. Whoever opened it closes it. */
  open(path: string): Promise<OpenedFile>;
  /** The whole content at once: whoever reads sees the old or the new one, never half. Missing folders are made. */
  write(path: string, content: Uint8Array, options?: WriteOptions): Promise<WriteResult>;
  /** Where `write` would write with these options, or the refusal it would meet. Nothing is made or changed. */
  mayWrite(path: string, options?: WriteOptions): Promise<Resolved>;
  /** With those missing on the way. One that is there already is fine. */
  makeFolder(path: string): Promise<MadeFolder>;
  /** A file, a link itself, or an empty folder; with `recursive` also a folder with all that is in it. */
  remove(path: string, options?: FileRemoveOptions): Promise<RemoveResult>;
  /** A file, a folder or a link itself. Folders missing on the way to the new name are made. */
  move(from: string, to: string, options?: FileMoveOptions): Promise<MoveResult>;
  /** What lies in one folder, sorted by name. */
  list(path: string, options?: FileListOptions): Promise<ListResult>;
  /**
   * Which files may hold a line that fits: all that do, and perhaps more, found quicker than by reading each. Undefined
   * where that cannot be told. A name is all that may be taken from here; what is in a file only `open` may say.
   */
  readonly candidates?: ((query: CandidateQuery) => Promise<readonly string[] | undefined>) | undefined;
  /** Whether what it was opened for is something else by now, and has to be opened anew. */
  readonly isElsewhere?: (() => boolean) | undefined;
  close(): Promise<void>;
}

export type BackendKind = 'local' | 'container' | 'database';

/** Where a path led inside the workspace, links followed. */
export interface Resolved {
  readonly path: string;
}

export interface FoundFile extends Resolved {
  readonly kind: FileKind;
  readonly bytes: number;
  /** The permission bits. */
  readonly mode: number;
  readonly modifiedMs: number;
  /** Differs when the file was replaced or written since; compare only. */
  readonly version: string;
}

/** It stays the same content whatever happens to its name. */
export interface OpenedFile {
  readonly facts: FoundFile;
  /** Fewer bytes than asked for only where the file ends. */
  read(offset: number, length: number): Promise<Uint8Array>;
  close(): Promise<void>;
}

export interface WriteOptions {
  /** `absent`: only a new file. A version: only the file that has it. Unless given, whatever is there is replaced. */
  readonly expected?: 'absent' | { readonly version: string };
  /** Of a new file; one that is replaced keeps its own. */
  readonly mode?: number;
}

export interface WriteResult extends FoundFile {
  /** Whether there was no such file before. */
  readonly created: boolean;
  /** Folders made on the way. */
  readonly folders: number;
}

export interface FileRemoveOptions {
  readonly recursive?: boolean;
  /** A folder that holds more stays whole. */
  readonly maxEntries?: number;
}

export interface RemoveResult extends Resolved {
  readonly kind: FileKind;
  /** How many files, links and folders are gone. */
  readonly entries: number;
}

export interface FileMoveOptions {
  /** What bears the new name is replaced: a file or link by a file, an empty folder by a folder. */
  readonly overwrite?: boolean;
}

export interface MoveResult {
  readonly from: string;
  readonly to: string;
  readonly kind: FileKind;
  readonly folders: number;
}

export interface FileListOptions {
  /** At most this many; 10,000 unless given. */
  readonly limit?: number;
  /** Sizes and times too, which costs a look at each. */
  readonly facts?: boolean;
}

export interface ListResult extends Resolved {
  readonly entries: readonly ListedEntry[];
  /** There are more than were asked for. */
  readonly more: boolean;
}

export interface ListedEntry {
  readonly name: string;
  readonly kind: FileKind;
  readonly bytes?: number;
  readonly modifiedMs?: number;
  /** The name is not UTF-8: `name` shows it, but no path can say it. */
  readonly unrepresentable?: true;
  /** Only its name is told: sessions may not read it. */
  readonly hidden?: true;
}
