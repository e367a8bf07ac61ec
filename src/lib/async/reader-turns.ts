import { AmbitError } from '../../errors.ts';
import { createFairLimit } from './mutex.ts';

/** The sender of a question. Readers take turns, and so do the consoles of one reader. */
export interface Reader {
  /** The person, with whatever credential. */
  readonly reader?: string | undefined;
  readonly console?: string | undefined;
}

/** The most that run at once, the most of one reader that wait, and the most of one console of that reader. */
const [maxRunning, maxWaiting, maxWaitingOfConsole] = [2, 64, 16];

/** Runs work that is dear to the gateway, for one reader after the other. Refuses it with `what` if too much waits. */
export function createReaderTurns(what: string) {
  const acquire = createFairLimit(maxRunning, maxWaiting, maxWaitingOfConsole);

  return async function runInTurn<T>({ reader = '', console }: Reader, work: () => Promise<T>): Promise<T> {
    const release = await acquire(reader, console);
    if (release === undefined) throw new AmbitError('OVERLOADED', { what });
    return work().finally(release);
  };
}
