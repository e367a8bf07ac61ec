import type { Limits } from '../limits/limits.ts';

/** A place outside a sandbox, and where it is found inside. */
export interface Shown {
  /** Without any link on the way; what is found there is checked to be there still when it is shown. */
  readonly real: string;
  readonly inside: string;
  /** An open descriptor of it, where it is held already: then it is this one, whatever has its name by now. */
  readonly descriptor?: number;
  /** How it is guarded where it may be written. Unless given, what is guarded is read-only and nothing is put there. */
  readonly guard?: Guard;
}

/** What of a folder stays as it is although the folder may be written. */
export interface Guard {
  /** Whether the repository in it may be written, but for what git runs or is configured by. */
  readonly git: 'read' | 'write';
  /** Whether something with a guarded name may be written all the same. */
  readonly mayWrite?: (names: readonly string[]) => boolean;
}

/** What a process may do that is started for a sandboxed session. Whatever is not said here, it may not. */
export interface Confinement {
  /** The workspace, or the folder the process has in place of one; its working directory, and it may write there. */
  readonly home: Shown;
  /** Where it starts, by its path inside, if not in its home. Only bwrap can do that. */
  readonly workFolder?: string;
  /** A volume of the container engine, by name, that is found at `home.inside` in place of `home.real`. */
  readonly volume?: string;
  readonly readable: readonly Shown[];
  readonly writable: readonly Shown[];
  /** Given where a program of Ambit's own is started: this alone is read-only in what it may write, in place of what is guarded in a server's. */
  readonly frozen?: readonly Shown[];
  /** Never part of what is shown because a server's own files are: real paths. */
  readonly hidden: readonly string[];
  /** Files that are seen as empty ones wherever what is shown holds them: real paths. Those that are missing are not put there. */
  readonly masked?: readonly string[];
  /** Where other sessions may write: real paths. A link there, or in what this one may write, adds nothing to what is shown. */
  readonly open?: readonly string[];
  /** Where fetched packages lie, by its real path. A server's own package is shown from there although it is hidden. */
  readonly packages?: string;
  readonly limits: Limits;
  /** Hosts it may reach, as `host:port`; none unless given. */
  readonly network?: readonly string[];
  /** The container image whose programs it runs, in place of this machine's. */
  readonly image?: string | undefined;
}
