import { createBwrapRunner } from './bwrap/bwrap.ts';
import { createPlainRunner } from './plain.ts';
import type { EndTiming, Runners, SandboxRunner } from './runner.ts';
import type { Warden } from './warden.ts';

export interface RunnersOptions {
  readonly warden: Warden;
  readonly tmpRoot: string;
  readonly timing?: EndTiming;
}

/** What the sandbox is on this machine is found out when something is first to be started in it. */
export function createRunners(options: RunnersOptions): Runners {
  const sandboxes = [createBwrapRunner(options)];
  return { plain: createPlainRunner(options), sandboxes, sandbox: () => firstThatWorks(sandboxes) };
}

export async function firstThatWorks(sandboxes: readonly SandboxRunner[]): Promise<SandboxRunner> {
  let refusal: unknown;
  for (const sandbox of sandboxes) {
    try {
      await sandbox.probe();
      return sandbox;
    } catch (error) {
      refusal ??= error;
    }
  }
  throw refusal;
}
