/** One thing this machine can do, or cannot. */
export interface Finding {
  readonly kind: 'platform' | 'runner' | 'limit' | 'files' | 'store';
  readonly name: string;
  /** `weak` works, less well than it could; `missing` does not. */
  readonly state: 'ok' | 'weak' | 'missing';
  readonly detail: string;
  /** What mends it here, with the command where there is one. */
  readonly remedy: string | null;
}

export interface Examination {
  /** Whether sandboxed sessions can be served, records kept and files confined. */
  readonly ok: boolean;
  readonly findings: readonly Finding[];
}
