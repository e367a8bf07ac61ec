import { type ChildProcess, type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { taggedProcesses } from '../sandbox/tagged-processes.ts';
import { requestControl } from './request-control.ts';
import { waitUntilEmpty } from './wait-until.ts';

export const repository = resolve(import.meta.dirname, '..', '..');
export const ambitBin = join(repository, 'bin', 'ambit.js');

export interface CreatedSession {
  readonly id: string;
  readonly token: string;
  readonly trustLevel: string;
}

/** A process of `ambit serve`. */
export interface ServeProcess {
  readonly url: string;
  readonly pid: number;
  readonly process: ChildProcess;
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

/** A real `ambit serve` in a process of its own, with a configuration and data directory of its own. */
export interface RunningAmbit extends ServeProcess {
  readonly folder: string;
  readonly dataDir: string;
  cli(...args: string[]): Promise<string>;
  /** Creates a direct session through the control socket: a command would be one more process. */
  session(draft?: Readonly<Record<string, unknown>>): Promise<CreatedSession>;
  mcp(server: string): string;
}

export interface ExitedCommand {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Flags for a command with all its files in this folder and no configuration. */
export function fileFlags(folder: string): string[] {
  return ['--config', join(folder, 'none.yaml'), '--data-dir', join(folder, 'data')];
}

export async function startAmbit(
  config: Record<string, unknown>,
  env: NodeJS.ProcessEnv = {},
  /** The number of files and sockets it may have open; by default as many as this process. */
  descriptors?: number,
): Promise<RunningAmbit> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-test-'));
  const file = join(folder, 'etc', 'ambit.yaml');
  const dataDir = join(folder, 'data');
  await mkdir(join(folder, 'etc'));
  await writeFile(file, JSON.stringify({ version: 1, ...config }));
  const flags = ['--config', file, '--data-dir', dataDir];
  const serving = await startServe(flags, env, descriptors);
  return {
    ...serving,
    folder,
    dataDir,
    async cli(...args) {
      const { code, stdout, stderr } = await runAmbit([...args, ...flags]);
      if (code !== 0) throw new Error(`ambit ${args.join(' ')} left with ${code}: ${stderr}`);
      return stdout;
    },
    session: (draft) =>
      requestControl(join(dataDir, 'control.sock'), 'POST', '/api/v1/sessions', { trustLevel: 'direct', ...draft }),
    mcp: (server) => `${serving.url}/mcp/${server}`,
    async stop(signal) {
      const code = await serving.stop(signal);
      // What a killed gateway had started may still write into its folder.
      await waitUntilEmpty(() => taggedProcesses(`${dataDir}/`), 50_000);
      await rm(folder, { recursive: true, force: true });
      return code;
    },
  };
}

/** Starts `ambit serve` with the configuration and data directory that the flags name. */
export async function startServe(
  flags: readonly string[],
  env: NodeJS.ProcessEnv = {},
  descriptors?: number,
): Promise<ServeProcess> {
  const child = spawnAmbit(['serve', '--port', '0', '--json', ...flags], env, descriptors);
  let errors = '';
  child.stderr?.on('data', (chunk: Buffer) => {
    errors += chunk.toString();
  });
  const exited = once(child, 'exit');
  const { url } = await Promise.race([
    once(createInterface({ input: child.stdout! }), 'line').then(
      ([line]) => JSON.parse(line as string) as { url: string },
    ),
    exited.then(([code]) => Promise.reject(new Error(`ambit serve left with ${code}:\n${errors}`))),
  ]);
  return {
    url,
    pid: child.pid as number,
    process: child,
    async stop(signal = 'SIGTERM') {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill(signal);
        await exited;
      }
      return child.exitCode;
    },
  };
}

/** Runs a command of `ambit` to its end. */
export async function runAmbit(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<ExitedCommand> {
  const child = spawnAmbit(args, env);
  const [stdout, stderr] = await Promise.all([text(child.stdout!), text(child.stderr!), once(child, 'close')]);
  return { code: child.exitCode, stdout, stderr };
}

export function spawnAmbit(args: readonly string[], env: NodeJS.ProcessEnv = {}, descriptors?: number): ChildProcess {
  const command = [process.execPath, ambitBin, ...args];
  const limited = ['sh', '-c', `ulimit -n ${descriptors} && exec "$0" "$@"`, ...command];
  const [program = '', ...rest] = descriptors === undefined ? command : limited;
  return spawn(program, rest, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } });
}

/** Spawns `ambit run` around a server, with all its files in this folder. */
export function spawnRun(
  folder: string,
  server: readonly string[],
  { flags = ['--trust', 'direct'], env = {}, stderr = 'pipe' }: RunOptions = {},
): ChildProcessWithoutNullStreams {
  const args = [ambitBin, 'run', ...flags, ...fileFlags(folder), '--', ...server];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', stderr], env: { ...process.env, ...env } });
  return child as ChildProcessWithoutNullStreams;
}

interface RunOptions {
  readonly flags?: readonly string[];
  readonly env?: NodeJS.ProcessEnv;
  readonly stderr?: 'pipe' | 'inherit';
}
