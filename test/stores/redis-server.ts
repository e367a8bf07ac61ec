import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants, existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

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

function onPath(name: string): string | undefined {
  const places = (process.env['PATH'] ?? '').split(delimiter).map((folder) => join(folder, name));
  return places.find((file) => {
    try {
      accessSync(file, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
}

const program = () => onPath('redis-server') ?? onPath('valkey-server');

/** The program, installed where that is possible; undefined where the tests that need it are to be left out. */
export function findRedis(): string | undefined {
  const found = program();
  if (found !== undefined) return found;
  const mayInstall = process.getuid?.() === 0 && existsSync('/etc/debian_version');
  if (mayInstall && process.env['AMBIT_TEST_NO_INSTALL'] !== '1') {
    process.stderr.write('test/stores: installing redis-server with apt-get (AMBIT_TEST_NO_INSTALL=1 stops this)\n');
    try {
      aptGet('install', '-y', '--no-install-recommends', 'redis-server');
    } catch {
      aptGet('update');
      aptGet('install', '-y', '--no-install-recommends', 'redis-server');
    }
  }
  const installed = program();
  if (installed !== undefined) return installed;
  if (process.env['CI'] === 'true') throw new Error('redis-server is needed and not on PATH');
  process.stderr.write('test/stores: SKIPPED, neither redis-server nor valkey-server is on PATH\n');
  return undefined;
}

function aptGet(...words: string[]): void {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  execFileSync('apt-get', ['-o', 'DPkg::Lock::Timeout=120', ...words], { stdio: 'ignore', env });
}

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
