import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { type Account, own } from './accounts.ts';

export interface Swapper {
  /** False after the test has finished, also when it ran out of time: whoever races against it stops with it. */
  isAtWork(): boolean;
  /** Kills the process and waits for its exit: after that nothing changes in the folder any more. */
  stop(): Promise<void>;
}

export interface SwapperOptions {
  readonly account?: Account;
  /** A copy of `swapper.js` that the account can read. */
  readonly script?: string;
  /** The target of the link that takes the place of the folder. */
  readonly target?: string;
}

/**
 * Starts to swap `d` in the folder for a link. The test ends the swapper at the latest when it finishes, before anything
 * that was made earlier in the test is removed: hooks of a finished test run in reverse order.
 */
export async function startSwapping(folder: string, options: SwapperOptions = {}): Promise<Swapper> {
  const { account = own, script = join(import.meta.dirname, 'swapper.js'), target = '../../outside' } = options;
  const child = spawn(process.execPath, [script, folder, target], { ...account, stdio: ['pipe', 'pipe', 'inherit'] });
  const swapper = { isAtWork: () => isRunning(child), stop: () => waitUntilKilled(child) };
  onTestFinished(swapper.stop);
  await once(child.stdout, 'data');
  return swapper;
}

const isRunning = (child: ChildProcess) => child.exitCode === null && child.signalCode === null;

async function waitUntilKilled(child: ChildProcess): Promise<void> {
  if (!isRunning(child)) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}
