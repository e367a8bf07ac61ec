import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { proof } from '../../proof.ts';
import { taggedProcesses } from '../../sandbox/tagged-processes.ts';
import { callModern, openClient, readOutcome } from '../json-mcp-client.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';
import { askProbe, probeEnvironment } from '../start-probed-ambit.ts';

export const fixtures = join(repository, 'test', 'fixtures', 'hostile');

export function fixtureServer(file: string, more: Record<string, unknown> = {}): Record<string, unknown> {
  return { command: process.execPath, args: [join(fixtures, file)], ...more };
}

/** A gateway under attack, with a harmless server beside the hostile ones and a look at what it complains about. */
export interface WatchedAmbit extends RunningAmbit {
  readonly token: string;
  /** The lines on stderr about failures inside the gateway itself. */
  complaints(): string[];
  /** Alive under the same pid, healthy, serving others in both eras, and no complaint. */
  expectHealthy(): Promise<void>;
  /** In the proof only: while the work goes on, the gateway's memory grows by less than this. */
  expectMemoryWithin(mb: number, work: Promise<unknown>): Promise<void>;
  /**
   * In the proof only: with what is kept of the work, and not yet collected garbage aside, it holds at most this much
   * more. A little that stays shows here long before it shows in memory.
   */
  expectHeldWithin<T>(mb: number, work: () => Promise<T>): Promise<T>;
  /** Open files and sockets of the gateway. */
  handles(): number;
  upstreams(): number;
  /** The processes of upstreams. */
  pids(): number[];
}

export async function startWatchedAmbit(config: {
  readonly servers?: Record<string, unknown>;
  readonly limits?: Record<string, number>;
  readonly processes?: Record<string, number>;
  readonly listen?: Record<string, unknown>;
}): Promise<WatchedAmbit> {
  // The attacks are about servers and messages: quotas would stop them too early.
  const quotas = { session: { callsPerMinute: 1_000_000, concurrentCalls: 10_000 } };
  const folder = mkdtempSync(join(tmpdir(), 'ambit-signs-'));
  const probe = join(folder, 'probe.sock');
  const servers = { calm: fixtureServer('well-behaved.js'), ...config.servers };
  // Nor do the attacks want for connections.
  const listen = { maxConnections: 4096, ...config.listen };
  const ambit = await startAmbit({ quotas, ...config, listen, servers }, proof ? probeEnvironment(probe) : {});
  let words = '';
  ambit.process.stderr?.on('data', (chunk: Buffer) => {
    words += chunk.toString();
  });
  const { token } = await ambit.session();
  const complaints = () =>
    words
      .split('\n')
      .filter((line) => /failed|failure|Error|Warning|Exception|^\s+at /.test(line))
      // That a server failed is worth a line; it is no failure of the gateway.
      .filter((line) => !/^ambit: (?:server (?:not started|not reached|lost): | {2}stderr \| )/.test(line));

  return {
    ...ambit,
    token,
    complaints,
    async expectHealthy() {
      expect(complaints()).toEqual([]);
      expect([ambit.process.exitCode, ambit.process.signalCode]).toEqual([null, null]);
      const health = await fetch(`${ambit.url}/healthz`);
      expect([health.status, await health.json()]).toEqual([200, { status: 'ok' }]);
      expect(readOutcome(await callModern(ambit.mcp('calm'), token, 'echo', { text: 'still here' }))).toBe(
        'still here',
      );
      const client = await openClient(ambit.mcp('calm'), token);
      expect(readOutcome(await client.call('echo', { text: 'and here' }))).toBe('and here');
    },
    async expectMemoryWithin(mb, work) {
      if (!proof) await work;
      else expect(await measureGrowth(ambit.pid, work)).toBeLessThan(mb);
    },
    async expectHeldWithin(mb, work) {
      const before = proof ? await readHeldMb(probe) : 0;
      const value = await work();
      if (proof) expect((await readHeldMb(probe)) - before).toBeLessThan(mb);
      return value;
    },
    handles: () => readdirSync(`/proc/${ambit.pid}/fd`).length,
    upstreams: () => taggedProcesses(join(ambit.dataDir, 'tmp')).length,
    pids: () => taggedProcesses(join(ambit.dataDir, 'tmp')),
    async stop(signal) {
      rmSync(folder, { recursive: true, force: true });
      return ambit.stop(signal);
    },
  };
}

export async function readHeldMb(probe: string): Promise<number> {
  const { heapUsed, external } = await askProbe(probe);
  return (heapUsed + external) / (1 << 20);
}

/** 0 for a process that has left. */
function residentMb(pid: number): number {
  try {
    const kb = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1];
    return Number(kb ?? 0) / 1024;
  } catch {
    return 0;
  }
}

/** By how many megabytes the memory of a process grew at most while something went on. */
export async function measureGrowth(pid: number, work: Promise<unknown>): Promise<number> {
  const before = residentMb(pid);
  let peak = before;
  const look = () => {
    peak = Math.max(peak, residentMb(pid));
  };
  const timer = setInterval(look, 20);
  try {
    await work;
  } finally {
    clearInterval(timer);
  }
  look();
  return peak - before;
}

const paths = [repository, homedir(), process.execPath].filter((path) => path.length > 1);

/** Nothing of the inside may show in what a caller reads. */
export function expectDiscreet(ambit: RunningAmbit, text: string): void {
  const shown = [...paths, ambit.folder].filter((path) => text.includes(path));
  if (shown.length > 0 || /\n\s+at |node:internal|\.[jt]s:\d+/.test(text)) expect.unreachable(`not discreet: ${text}`);
}
