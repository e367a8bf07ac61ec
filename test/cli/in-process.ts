import { expect } from 'vitest';
import { main } from '../../src/cli/main.ts';
import { loadConfig } from '../../src/config/load/load.ts';
import type { Config } from '../../src/config/schema/schema.ts';
import { listenControl } from '../../src/entrances/control/listen-control.ts';
import { controlSocketPath } from '../../src/entrances/control/socket-path.ts';
import { openGateway } from '../../src/gateway/assembly/open-gateway.ts';
import type { Gateway } from '../../src/gateway/gateway.ts';
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

/** Matches the stderr of a command that had nothing to say, but perhaps which store it worked on. */
export const onlyStoreNote: unknown = expect.stringMatching(/^(?:ambit: no gateway is running.*\n)?$/);

/** A gateway with a control socket, which the commands then ask. */
export async function openControlledGateway(
  configFile: string,
  dataDir: string,
  more: Partial<Config> = {},
): Promise<{ readonly gateway: Gateway; close(): Promise<void> }> {
  const { config } = await loadConfig({ file: configFile });
  const gateway = await openGateway({
    config: { ...config, ...more },
    configFile,
    dataDir,
    log: { info() {}, warn() {} },
  });
  const control = await listenControl(gateway, controlSocketPath(dataDir, process.env));
  return {
    gateway,
    async close() {
      await control.close();
      await gateway.close();
    },
  };
}

/** The words of a command line; quoted ones are one word. */
export function splitWords(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) => quoted ?? plain ?? '');
}
