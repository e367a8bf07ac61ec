import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface, type Interface } from 'node:readline';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { spawnRun } from '../start-ambit.ts';
import { askProbe, probeEnvironment, upstreamProgram, waitUntilNothingIsLeft } from '../start-probed-ambit.ts';
import { expectHeap } from './abandon-in-waves.ts';
import { eras } from './raw-client.ts';

const atOnce = 100;
const described = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};

describe.skipIf(process.platform !== 'linux')('one client that calls and calls through ambit run', () => {
  let folder: string;
  let run: ChildProcess;
  let lines: Interface;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-calls-'));
    const env = probeEnvironment(join(folder, 'probe.sock'));
    run = spawnRun(folder, [process.execPath, upstreamProgram], { env, stderr: 'inherit' });
    lines = createInterface({ input: run.stdout! });
  });
  afterEach(async () => {
    if (run.exitCode === null && run.signalCode === null) {
      const exited = once(run, 'exit');
      run.kill('SIGKILL');
      await exited;
    }
    rmSync(folder, { recursive: true, force: true });
  });

  const say = (message: object) => run.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);

  /** Makes so many calls, some at the same time, and resolves when all are answered. */
  async function call(times: number, meta: object): Promise<void> {
    let asked = 0;
    let answered = 0;
    const ask = () => {
      const _meta = { ...meta, progressToken: ++asked };
      say({ id: asked, method: 'tools/call', params: { name: 'whoami', _meta } });
    };
    await new Promise<void>((resolve) => {
      lines.on('line', (line) => {
        if (!line.includes('"result"')) return;
        if (++answered === times) resolve();
        else if (asked < times) ask();
      });
      for (let i = 0; i < atOnce; i++) ask();
    });
    lines.removeAllListeners('line');
  }

  // What it holds is a figure of the proof; its end is looked at with few calls, in one era.
  it.each(proof ? eras : (['handshake'] as const))('leaves nothing behind but the answers (%s)', async (era) => {
    if (era === 'handshake') {
      const clientInfo = { name: 'caller', version: '1' };
      say({ id: 0, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo } });
      await once(lines, 'line');
      say({ method: 'notifications/initialized' });
    }
    const meta = era === 'modern' ? described : {};
    await call(counts(200, 3000), meta);
    if (proof) {
      const before = await askProbe(join(folder, 'probe.sock'));
      await call(200_000, meta);
      expectHeap(before, await askProbe(join(folder, 'probe.sock')));
    }
    const exited = once(run, 'exit');
    run.stdin?.end();
    expect(await exited).toEqual([0, null]);
    // On a busy machine it does not wait for the reaper to the end.
    await waitUntilNothingIsLeft(join(folder, 'data'));
  });
});
