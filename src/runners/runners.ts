import { createBwrapRunner } from './bwrap/bwrap.ts';
import { createPlainRunner } from './plain.ts';
import type { EndTiming, Runners } from './runner.ts';
import type { Warden } from './warden.ts';

export interface RunnersOptions {
  readonly warden: Warden;
  readonly tmpRoot: string;
  readonly timing?: EndTiming;
}

/** What the sandbox is on this machine is found out when something is first to be started in it. */
export function createRunners(options: RunnersOptions): Runners {
  return { plain: createPlainRunner(options), sandbox: createBwrapRunner(options) };
}
