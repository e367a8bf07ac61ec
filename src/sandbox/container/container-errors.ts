import { basename } from 'node:path';
import type { AmbitError } from '../../errors.ts';
import { inspectMachine, installCommand } from '../common/machine.ts';
import { sandboxUnavailable } from '../common/sandbox-errors.ts';
import type { Engine } from './engine.ts';

export function engineMissing(): AmbitError {
  if (process.platform !== 'linux') {
    return sandboxUnavailable('containers are used on Linux only, so far', 'Run Ambit on Linux.');
  }
  return sandboxUnavailable(
    'neither "podman" nor "docker" is on the PATH of Ambit',
    `Install podman; the next call finds it: ${installCommand(inspectMachine(), 'podman')}`,
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
    `The operator can fetch it with "${engine.kind} pull ${image}"; Ambit fetches none by itself.`,
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
      'The operator can name a program of the image as the command, or another image.',
    );
  }
  return sandboxUnavailable(
    `a server in the image "${image}" cannot reach hosts (sandbox.network), since the way to them needs "node" there`,
    'The operator can use an image that has Node, or leave out sandbox.network or sandbox.image for this server.',
  );
}

function suggestEngineRemedy(engine: Engine, said: string): string {
  if (/hybrid/i.test(said)) {
    const install = installCommand(inspectMachine(), 'runc');
    return `Install runc, which can do with both kinds of control groups at once: ${install}`;
  }
  if (/cannot connect to the docker daemon|docker\.sock/i.test(said)) {
    return 'Start the Docker daemon, let the account of Ambit use it, or install podman, which needs none.';
  }
  if (/newuidmap|subuid/i.test(said)) return 'Give the account of Ambit lines in /etc/subuid and /etc/subgid.';
  return `Start "${engine.kind} run --rm hello-world" by hand to see more.`;
}
