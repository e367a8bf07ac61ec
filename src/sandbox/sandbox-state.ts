import { setTimeout as delay } from 'node:timers/promises';
import type { EnforcedLimits } from './limits/limits.ts';
import type { Runners } from './runner.ts';

/** The sandbox that sessions of this gateway run in. */
export interface SandboxState {
  /** Null where there is none. */
  readonly runner: string | null;
  readonly limits: EnforcedLimits | null;
  /** The reason why there is none. */
  readonly refusal: string | null;
}

export interface SandboxMonitor {
  /** Checks again: a sandbox that was missing before may be available by now. Never rejects. */
  check(): Promise<SandboxState>;
  /** Resolves when no check is pending any more, after two seconds at the latest. */
  settled(): Promise<void>;
}

const settleMs = 2000;

export function monitorSandbox({ sandbox }: Pick<Runners, 'sandbox'>): SandboxMonitor {
  let pending: Promise<SandboxState> | undefined;

  async function find(): Promise<SandboxState> {
    try {
      const runner = await sandbox();
      return { runner: runner.name, limits: (await runner.probe()).limits, refusal: null };
    } catch (error) {
      return { runner: null, limits: null, refusal: (error as Error).message };
    } finally {
      pending = undefined;
    }
  }

  return {
    check() {
      pending ??= find();
      return pending;
    },
    settled: async () => void (await Promise.race([pending, delay(settleMs, undefined, { ref: false })])),
  };
}
