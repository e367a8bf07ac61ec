/** Git said no, or is not there. What it says names paths of the host: for the log, not for agents. */
export class GitError extends Error {
  readonly missing: boolean;
  /** What git left with; undefined where it did not come to an end by itself. */
  readonly code: number | undefined;

  constructor(
    message: string,
    more: { readonly missing?: boolean; readonly code?: number; readonly cause?: unknown } = {},
  ) {
    super(message, { cause: more.cause });
    this.name = 'GitError';
    this.missing = more.missing === true;
    this.code = more.code;
  }
}
