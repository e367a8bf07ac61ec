import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { ambitBin } from '../start-ambit.ts';

export interface Serving {
  readonly url: string;
  readonly pid: number;
  stop(signal: NodeJS.Signals): Promise<number | null>;
}

export interface Exited {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** `ambit serve` with the configuration and on the data directory that the places name. */
export async function serve(places: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Serving> {
  const child = spawnAmbit(['serve', '--port', '0', '--json', ...places], env);
  const stderr = text(child.stderr!);
  const exited = once(child, 'exit');
  const left = exited.then(async ([code]) => Promise.reject(new Error(`it left with ${code}: ${await stderr}`)));
  left.catch(() => {});
  const [line] = (await Promise.race([once(child.stdout!, 'data'), left])) as [Buffer];
  const { url } = JSON.parse(line.toString()) as { url: string };
  return {
    url,
    pid: child.pid as number,
    async stop(signal) {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal);
        await exited;
      }
      return child.exitCode;
    },
  };
}

/** Runs a command of `ambit` to its end. */
export async function runAmbit(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Exited> {
  const child = spawnAmbit(args, env);
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}

export function spawnAmbit(args: readonly string[], env: NodeJS.ProcessEnv = {}): ChildProcess {
  return spawn(process.execPath, [ambitBin, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
}
