import { createBwrapRunner } from './bwrap/bwrap.ts';
import { sandboxUnavailable } from './common/sandbox-errors.ts';
import { createContainerRunner } from './container/container.ts';
import { createPackages } from './packages/packages.ts';
import { createPlainRunner } from './plain/plain.ts';
import type { RunnerOptions, Runners, SandboxRunner } from './runner.ts';
import { createSeatbeltRunner } from './seatbelt/seatbelt.ts';

interface RunnersOptions extends RunnerOptions {
  /** The folder of the packages that servers are started from. */
  readonly packages: string;
}

/** Creates the runners. The sandbox of this machine is found when something is first started in it. */
export function createRunners(options: RunnersOptions): Runners {
  const container = createContainerRunner(options);
  const sandboxes: readonly SandboxRunner[] = [
    process.platform === 'darwin' ? createSeatbeltRunner(options) : createBwrapRunner(options),
    container,
  ];
  const plain = createPlainRunner(options);
  const { tmpRoot, packages: folder } = options;
  const packages = createPackages({
    folder,
    tmpRoot,
    sandbox: () => (process.platform === 'darwin' ? refuseFetch() : findWorkingSandbox(sandboxes)),
    env: () => process.env,
  });
  return {
    plain,
    packages,
    sandboxes,
    container,
    sandbox: (image) => findWorkingSandbox(image === undefined ? sandboxes : [container]),
  };
}

/** The sandbox of macOS reaches no registry, and no container there runs the programs of macOS. */
async function refuseFetch(): Promise<never> {
  throw sandboxUnavailable(
    'on macOS no package can be fetched in a sandbox',
    'Install the package yourself, and name its program as the command.',
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
