import { isAmbitError } from '../../../errors.ts';
import { EraFault } from '../../../protocol/protocol-error.ts';
import type { Exit } from '../../../sandbox/runner.ts';

/** Who is told what becomes of a server's processes, beside the journal. */
export interface ProcessWatch {
  spawned(pid: number | undefined): void;
  /** It can be called now. `again` when the one before it had ended by itself. */
  ready(pid: number | undefined, ms: number, again: boolean): void;
  /** It was started in vain. */
  failed(error: unknown): void;
  ended(pid: number | undefined, exit: Exit): void;
  /** It ended though nobody had asked it to. */
  lost(pid: number | undefined, exit: Exit): void;
}

/** For processes that nobody watches. */
export const unwatched: ProcessWatch = { spawned() {}, ready() {}, failed() {}, ended() {}, lost() {} };

/** A refusal, the end of a session or another era is no failure of the server's: those are not told. */
export function tellingFailure<Started>(start: Promise<Started>, watch: ProcessWatch): Promise<Started> {
  return start.catch((error: unknown) => {
    const meant = isAmbitError(error) && !error.code.startsWith('UPSTREAM_');
    if (!meant && !(error instanceof EraFault)) watch.failed(error);
    throw error;
  });
}
