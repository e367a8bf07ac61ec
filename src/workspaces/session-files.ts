import type { WorkspaceBackend } from './backends/backend.ts';

/** The files of one session, within its bounds: what a tool works on. */
export interface SessionFiles extends Omit<WorkspaceBackend, 'close' | 'isElsewhere'> {
  /** The largest file that may be written. */
  readonly fileBytes: number;
  /** Reads and writes that belong together, one after the other for each path. */
  alone<T>(path: string, work: () => Promise<T>): Promise<T>;
}
