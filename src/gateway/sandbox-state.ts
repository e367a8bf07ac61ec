import { setTimeout as delay } from 'node:timers/promises';
import type { InForce } from '../runners/limits/limits.ts';
import type { Runners } from '../runners/runner.ts';

/** What sandboxed sessions of this gateway run in. */
export interface SandboxState {
  /** Null where there is none, or it has not been looked for yet. */
  readonly runner: string | null;
  /** Who keeps a process within each limit. */
  readonly limits: InForce | null;
  /** Why there is none. */
  readonly refusal: string | null;
}

export interface SandboxLook {
  /** Looks for one, unless one was found; a sandbox that is missing now may be there later. */
  look(): void;
  /** What was found last. */
  found(): SandboxState;
  /** Resolves when nothing is being tried any more, after a second at the latest. */
  settled(): Promise<void>;
}

const settleMs = 1000;

export function lookForSandbox({ sandbox }: Pick<Runners, 'sandbox'>): SandboxLook {
  let found: SandboxState = { runner: null, limits: null, refusal: null };
  let looking: Promise<void> | undefined;

  async function find(): Promise<void> {
    try {
      const runner = await sandbox();
      found = { runner: runner.name, limits: (await runner.probe()).limits, refusal: null };
    } catch (error) {
      found = { runner: null, limits: null, refusal: (error as Error).message };
    } finally {
      looking = undefined;
    }
  }

  return {
    look() {
      if (found.runner === null) looking ??= find();
    },
    found: () => found,
    settled: async () => void (await Promise.race([looking, delay(settleMs, undefined, { ref: false })])),
  };
}
