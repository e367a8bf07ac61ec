import { basename } from 'node:path';
import type { AmbitError } from '../../errors.ts';
import { inspectMachine, installCommand } from '../common/machine.ts';
import { sandboxUnavailable } from '../common/sandbox-errors.ts';
import type { Engine } from './engine.ts';

export function engineMissing(): AmbitError {
  if (process.platform !== 'linux') {
    return sandboxUnavailable('containers are only supported on Linux', 'Run Ambit on Linux.');
  }
  return sandboxUnavailable(
    'neither "podman" nor "docker" was found on the PATH',
    `Install podman (no restart needed): ${installCommand(inspectMachine(), 'podman')}`,
  );
}

/** Turns the message of an engine into an error with a remedy. */
export function engineFailed(engine: Engine, said: string): AmbitError {
  // Callers see no path of this machine.
  const words = said.replace(/\/\S+/g, '…').slice(0, 300);
  return sandboxUnavailable(`${engine.kind} does not run containers (${words})`, suggestEngineRemedy(engine, said));
}

export function imageMissing(engine: Engine, image: string): AmbitError {
  return sandboxUnavailable(
    `the image "${image}" is not on this machine`,
    `The operator can download it with "${engine.kind} pull ${image}"; Ambit does not download images.`,
  );
}

/** Whether an engine reports that the first program of a container does not exist. */
export const isProgramMissing = (said: string): boolean =>
  /executable file .*not found|exec: "[^"]*": stat .*no such file/i.test(said.slice(0, 2000));

export function programMissing(
  image: string,
  { program, before }: { program: string; before?: readonly string[] },
): AmbitError {
  if (before === undefined) {
    return sandboxUnavailable(
      `the image "${image}" does not have the program "${basename(program)}"`,
      'The operator can use a program of the image as the command, or another image.',
    );
  }
  return sandboxUnavailable(
    `a server in the image "${image}" has no network access (sandbox.network), because that needs "node" in the image`,
    'The operator can use an image with Node, or remove sandbox.network or sandbox.image for this server.',
  );
}

function suggestEngineRemedy(engine: Engine, said: string): string {
  if (/hybrid/i.test(said)) {
    const install = installCommand(inspectMachine(), 'runc');
    return `Install runc, which supports both versions of control groups: ${install}`;
  }
  if (/cannot connect to the docker daemon|docker\.sock/i.test(said)) {
    return 'Start the Docker daemon and give the account that runs Ambit access to it, or install podman, which needs no daemon.';
  }
  if (/newuidmap|subuid/i.test(said))
    return 'Add lines for the account that runs Ambit to /etc/subuid and /etc/subgid.';
  return `Run "${engine.kind} run --rm hello-world" by hand to see more.`;
}
