import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { taggedProcesses, until } from '../sandbox/tagged-processes.ts';
import { ask } from './request-control.ts';

export const repository = resolve(import.meta.dirname, '..', '..');
export const ambitBin = join(repository, 'bin', 'ambit.js');

export interface CreatedSession {
  readonly id: string;
  readonly token: string;
  readonly trustLevel: string;
}

/** A real `ambit serve` in a process of its own, with a configuration and data directory of its own. */
export interface RunningAmbit {
  readonly url: string;
  readonly folder: string;
  readonly dataDir: string;
  readonly pid: number;
  readonly process: ChildProcess;
  cli(...args: string[]): Promise<string>;
  /** A direct one; asked of the control socket, since a command would be one more process. */
  session(draft?: Readonly<Record<string, unknown>>): Promise<CreatedSession>;
  mcp(server: string): string;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

export async function startAmbit(
  config: Record<string, unknown>,
  env: NodeJS.ProcessEnv = {},
  /** How many files and sockets it may have open; as many as this process unless said. */
  descriptors?: number,
): Promise<RunningAmbit> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-test-'));
  const file = join(folder, 'etc', 'ambit.yaml');
  const dataDir = join(folder, 'data');
  await mkdir(join(folder, 'etc'));
  await writeFile(file, JSON.stringify({ version: 1, ...config }));
  const places = ['--config', file, '--data-dir', dataDir];
  const command = [process.execPath, ambitBin, 'serve', '--port', '0', '--json', ...places];
  const limited = ['sh', '-c', `ulimit -n ${descriptors} && exec "$0" "$@"`, ...command];
  const [program = '', ...args] = descriptors === undefined ? command : limited;
  const child = spawn(program, args, {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  let errors = '';
  child.stderr.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const lines = createInterface({ input: child.stdout });
  const ready = await Promise.race([
    once(lines, 'line').then(([line]) => JSON.parse(line as string) as { url: string }),
    once(child, 'exit').then(() => {
      throw new Error(`ambit serve did not start:\n${errors}`);
    }),
  ]);

  async function cli(...args: string[]): Promise<string> {
    const { stdout } = await promisify(execFile)(process.execPath, [ambitBin, ...args, ...places]);
    return stdout;
  }

  return {
    url: ready.url,
    folder,
    dataDir,
    pid: child.pid as number,
    process: child,
    cli,
    session: (draft) =>
      ask(join(dataDir, 'control.sock'), 'POST', '/api/v1/sessions', { trustLevel: 'direct', ...draft }),
    mcp: (server) => `${ready.url}/mcp/${server}`,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) {
        const exited = once(child, 'exit');
        child.kill(signal);
        await exited;
      }
      // What a killed gateway had started may still write into its folder.
      await until(
        () => taggedProcesses(`${dataDir}/`).length === 0,
        50_000,
        () => `still running: ${taggedProcesses(`${dataDir}/`)}`,
      );
      await rm(folder, { recursive: true, force: true });
      return child.exitCode;
    },
  };
}
