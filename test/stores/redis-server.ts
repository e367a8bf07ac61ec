import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findProgram } from '../needs/program.ts';

export interface RedisServer {
  readonly url: string;
  readonly socket: string;
  readonly process: ChildProcess;
  /** Ends it at once; what it kept is gone unless it was told to append. */
  stop(): Promise<void>;
  /** Starts it again at the same address. */
  start(): Promise<void>;
  remove(): Promise<void>;
}

/** The Redis server program; undefined where the tests that need it are skipped. */
export const findRedis = (): string | undefined => findProgram('redis');

export async function startRedis(file: string, more: readonly string[] = []): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'ambit-redis-'));
  const socket = join(folder, 'redis.sock');
  const url = `unix://${socket}`;
  let child: ChildProcess;

  async function start(): Promise<void> {
    const listen = more.includes('--port') ? [] : ['--port', '0'];
    child = spawn(file, [...listen, '--unixsocket', socket, '--save', '', '--dir', folder, ...more], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let said = '';
    await new Promise<void>((resolve, reject) => {
      child.stdout?.on('data', (chunk: Buffer) => {
        said += chunk.toString();
        // Redis says "at <path>", Valkey "unix".
        if (/ready to accept connections (?:at|unix)/i.test(said)) resolve();
      });
      child.once('exit', () => reject(new Error(`redis-server did not start: ${said}`)));
    });
  }

  async function stop(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }

  await start();
  return {
    url,
    socket,
    get process() {
      return child;
    },
    start,
    stop,
    async remove() {
      await stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
