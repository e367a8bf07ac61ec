import { main } from '../../src/cli/main.ts';
import type { ExitedCommand } from '../journeys/start-ambit.ts';

/** A command of `ambit` without a process of its own; for those that print and leave, one at a time. */
export async function ambitInProcess(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ExitedCommand> {
  const said = { stdout: '', stderr: '' };
  const streams = ['stdout', 'stderr'] as const;
  const real = streams.map((name) => process[name].write);
  for (const name of streams) {
    process[name].write = ((chunk: string | Uint8Array) => {
      said[name] += chunk.toString();
      return true;
    }) as typeof process.stdout.write;
  }
  try {
    const code = await main(args, { ...process.env, ...env });
    return { code, ...said };
  } finally {
    for (const [i, name] of streams.entries()) process[name].write = real[i] as typeof process.stdout.write;
  }
}
