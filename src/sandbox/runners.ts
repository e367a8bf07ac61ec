import { setTimeout as delay } from 'node:timers/promises';
import { createBwrapRunner } from './bwrap/bwrap.ts';
import { sandboxUnavailable } from './common/sandbox-errors.ts';
import { createContainerRunner } from './container/container.ts';
import type { EnforcedLimits } from './limits/limits.ts';
import { createDirectPackages } from './packages/direct-packages.ts';
import type { OnInstall } from './packages/package-store.ts';
import { createPackages } from './packages/packages.ts';
import { createPlainRunner } from './plain/plain.ts';
import type { RunnerOptions, Runners, SandboxRunner } from './runner.ts';
import { createSeatbeltRunner } from './seatbelt/seatbelt.ts';

interface RunnersOptions extends RunnerOptions {
  /** The folder of packages for sandboxes. Those of direct sessions lie beside it, since their scripts have run. */
  readonly packages: string;
  readonly onInstall?: OnInstall | undefined;
}

/** Creates the runners. The sandbox of this machine is found when something is first started in it. */
export function createRunners(options: RunnersOptions): Runners {
  const container = createContainerRunner(options);
  const sandboxes: readonly SandboxRunner[] = [
    process.platform === 'darwin' ? createSeatbeltRunner(options) : createBwrapRunner(options),
    container,
  ];
  const plain = createPlainRunner(options);
  const { tmpRoot, packages: folder, onInstall } = options;
  const common = { tmpRoot, onInstall, env: () => process.env };
  const packages = createPackages({
    ...common,
    folder,
    sandbox: () => (process.platform === 'darwin' ? refuseFetch() : findWorkingSandbox(sandboxes)),
  });
  return {
    plain,
    packages,
    directPackages: createDirectPackages({ ...common, folder: `${folder}-direct`, sandboxed: folder, plain }),
    sandboxes,
    container,
    sandbox: (image) => findWorkingSandbox(image === undefined ? sandboxes : [container]),
  };
}

/** The sandbox of macOS reaches no registry, and no container there runs the programs of macOS. */
async function refuseFetch(): Promise<never> {
  throw sandboxUnavailable(
    'on macOS packages cannot be downloaded in a sandbox',
    'Install the package yourself, and use its program as the command.',
  );
}

async function findWorkingSandbox(sandboxes: readonly SandboxRunner[]): Promise<SandboxRunner> {
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
