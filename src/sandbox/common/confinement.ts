import type { ResourceLimits } from '../limits/limits.ts';

/**
 * The folder at which a volume is mounted. The local image has this folder, and the user of the programs owns it:
 * docker gives a new volume to the owner of the folder it is first mounted on.
 */
export const volumeFolder = '/workspace';

/** A path outside a sandbox and its path inside. */
export interface Mount {
  /** The path outside, without any link in it. It is checked again when it is mounted. */
  readonly source: string;
  readonly target: string;
  /** An open descriptor of the path. It decides, even if the name means another file by now. */
  readonly descriptor?: number;
  /** The protection of a writable folder. Without one, missing protected names are not reserved. */
  readonly guard?: Guard;
}

export interface Guard {
  /** Whether the repository may be written, except for what git runs or reads as configuration. */
  readonly git: 'read' | 'write';
  /** Whether a protected name may be written all the same. */
  readonly mayWrite?: (names: readonly string[]) => boolean;
}

/** The permissions of a process in a sandboxed session. Everything that is not named here is denied. */
export interface Confinement {
  /** The workspace, or the folder that replaces it: the working directory of the process, which it may write. */
  readonly home: Mount;
  /** The path inside in which the process starts, if not in its home. Only bwrap can do that. */
  readonly workFolder?: string;
  /** A volume of the container engine, by name, that is mounted at `home.target` instead of `home.source`. */
  readonly volume?: string;
  readonly readable: readonly Mount[];
  readonly writable: readonly Mount[];
  /** Set for a program of Ambit's own: only these are read-only, instead of the protected names of a server. */
  readonly frozen?: readonly Mount[];
  /** Paths that are never shown as part of a server's own files, as real paths. */
  readonly hidden: readonly string[];
  /** Files that are shown empty wherever they are visible, as real paths. Missing ones are not made. */
  readonly masked?: readonly string[];
  /** Folders that other sessions may write, as real paths. A link in them adds nothing to what is shown. */
  readonly open?: readonly string[];
  /** The folder of fetched packages, a real path. A server's own package is shown from there although it is hidden. */
  readonly packages?: string;
  readonly limits: ResourceLimits;
  /** Hosts it may reach, as `host:port`; none unless given. */
  readonly network?: readonly string[];
  /** The container image whose programs it runs instead of this machine's. */
  readonly image?: string | undefined;
}
