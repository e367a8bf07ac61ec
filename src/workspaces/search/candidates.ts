import type { Glob } from '../../lib/text/glob.ts';

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
  readonly rulesOf: (ignoreFiles: readonly string[]) => Promise<readonly string[] | undefined>;
  readonly signal: AbortSignal | undefined;
}
