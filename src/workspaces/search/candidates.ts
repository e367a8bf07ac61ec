import type { Glob } from '../../text/glob.ts';

/** What is searched for, for whoever can tell quickly which files may hold it. */
export interface CandidateQuery {
  /** As Rust's regular expressions are written. */
  readonly rust: string;
  /** The folder, by its real path in the workspace. */
  readonly path: string;
  /** Over paths relative to that folder. */
  readonly glob: Glob | undefined;
  readonly signal: AbortSignal | undefined;
}
