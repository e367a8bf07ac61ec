import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { groupsThere, processesIn } from '../../sandbox/bwrap/sandbox-harness.ts';
import { startRegistry } from '../../sandbox/packages/tiny-registry.ts';
import { isAlive, until } from '../../sandbox/tagged-processes.ts';
import { repository } from '../../structure/source-files.ts';
import { ambitBin } from '../start-ambit.ts';
import { waitUntilEmpty } from '../wait-until.ts';

const recorder = join(repository, 'test/fixtures/recorder/stdio.js');
let home = '';
/** Nobody is there unless a test says so. */
let registry = 'http://127.0.0.1:1';
const started: ChildProcess[] = [];
beforeEach(() => {
  home = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-wrapped-')));
});
afterEach(async () => {
  // Whoever still runs may write into its home while that is removed.
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue;
    const exited = once(child, 'exit');
    child.kill('SIGKILL');
    await exited;
  }
  rmSync(home, { recursive: true, force: true });
});

interface Wrapped {
  readonly child: ChildProcess;
  call(name: string): Promise<string>;
}

/** The command a client would start, without any configuration, in an empty home. */
function start(...command: readonly [string, ...string[]]): Wrapped {
  const env = { PATH: process.env['PATH'], HOME: home, HOST_SECRET: 'not to be told', npm_config_registry: registry };
  const child = spawn(command[0], command.slice(1), { env, stdio: ['pipe', 'pipe', 'inherit'] });
  started.push(child);
  const lines = createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator]();
  let id = 0;
  const ask = async (method: string, params: object) => {
    const sent = { jsonrpc: '2.0', id: ++id, method, params };
    (child.stdin as Writable).write(`${JSON.stringify(sent)}\n`);
    for (;;) {
      const { value, done } = await lines.next();
      if (done) throw new Error('it has left');
      const answer = JSON.parse(value as string) as { id?: number; result?: { content: { text: string }[] } };
      if (answer.id === id) return answer.result;
    }
  };
  const clientInfo = { name: 'test', version: '1' };
  const opened = ask('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
  // Whoever calls hears of it.
  opened.catch(() => {});
  return {
    child,
    async call(name) {
      await opened;
      return (await ask('tools/call', { name, arguments: {} }))?.content[0]?.text ?? '';
    },
  };
}

const ambitRun = [process.execPath, ambitBin, 'run'] as const;
const state = () => join(home, '.local/state/ambit');
const instances = (): string[] => {
  const [data] = readdirSync(state());
  return readdirSync(join(state(), data ?? '', 'tmp'));
};
const groups = (names: readonly string[]) =>
  groupsThere().filter((path) => names.some((name) => path.includes(`/ambit-${name.replace('instance-', '')}-`)));
/** Outside of every sandbox; others mount what they like. */
const mounts = () =>
  readFileSync('/proc/self/mountinfo', 'latin1')
    .split('\n')
    .filter((line) => line.includes(home));

describe.skipIf(!hasBwrap())('ambit run, with no configuration at all', () => {
  test('runs a package by npx: its version is fixed when it is first fetched, and the registry is not asked again', async () => {
    const server = readFileSync(join(import.meta.dirname, 'tells-environment.cjs'), 'utf8');
    const shelf = await startRegistry();
    onTestFinished(() => shelf.stop());
    registry = shelf.url;
    const publish = (version: string) =>
      shelf.publish({ name: '@some/server', version, bin: { some: 'some.js' } }, { 'some.js': server });
    publish('1.0.0');
    publish('2.0.0');
    publish('1.1.0');
    for (const life of ['first', 'second']) {
      const { child, call } = start(...ambitRun, '--trust', 'sandboxed', '--', 'npx', '-y', '@some/server@^1', life);
      const { env, args, version } = JSON.parse(await call('environment'));
      expect([args, version]).toEqual([[life], '1.1.0']);
      expect(env).toMatchObject({ AMBIT_TRUST_LEVEL: 'sandboxed', HOME: '/tmp/home', TMPDIR: '/tmp' });
      expect(JSON.stringify(env)).not.toMatch(/not to be told|npm_config/);
      child.stdin?.end();
      await once(child, 'exit');
      publish('1.2.0');
      shelf.stop();
    }
    expect(instances()).toEqual([]);
  });

  test.skipIf(!proof)(
    'S1: after kill -9 in the middle of a fetch nothing of it is left, and the next start fetches',
    async () => {
      const silent = createServer();
      await once(silent.listen(0, '127.0.0.1'), 'listening');
      onTestFinished(() => {
        silent.closeAllConnections();
        silent.close();
      });
      registry = `http://127.0.0.1:${(silent.address() as { port: number }).port}`;
      const { child } = start(...ambitRun, '--', 'npx', '-y', '@some/server');
      await once(silent, 'request');
      expect(processesIn(home).length).toBeGreaterThan(1);
      const settings = () =>
        readdirSync(state(), { recursive: true }).filter((name) => String(name).endsWith('settings/npmrc'));
      expect(settings()).toHaveLength(1);
      child.kill('SIGKILL');
      await waitUntilEmpty(() => [...processesIn(home), ...instances()], 8000);
      expect(settings()).toEqual([]);
      const shelf = await startRegistry();
      onTestFinished(() => shelf.stop());
      const server = readFileSync(join(import.meta.dirname, 'tells-environment.cjs'), 'utf8');
      shelf.publish({ name: '@some/server', version: '1.0.0', bin: 'some.js' }, { 'some.js': server });
      registry = shelf.url;
      const again = start(...ambitRun, '--', 'npx', '-y', '@some/server');
      expect(JSON.parse(await again.call('environment')).version).toBe('1.0.0');
      again.child.stdin?.end();
      await once(again.child, 'exit');
      const homes = readdirSync(state(), { recursive: true }).filter((name) => /content-[0-9a-f]+$/.test(String(name)));
      expect(homes).toHaveLength(1);
    },
  );

  const firstInside = () => processesIn(home).find((pid) => comm(pid) === 'bwrap') as number;
  const victims: Record<string, (wrapped: Wrapped) => number> = {
    Ambit: ({ child }) => child.pid as number,
    'the sandbox': () => parentOf(firstInside()),
    'the first process inside': firstInside,
  };

  test.each([[['the sandbox', 'the first process inside']], [['Ambit']]])(
    'P5: sandboxes the server unless told otherwise, and tells it so; after kill -9 of %j, one after the other, nothing is left',
    async (names) => {
      const wrapped = start(...ambitRun, '--', 'node', recorder);
      const told = JSON.parse(await wrapped.call('environment')) as Record<string, string>;
      expect(told).toMatchObject({ AMBIT_TRUST_LEVEL: 'sandboxed', AMBIT_USER_ID: 'local', TMPDIR: '/tmp' });
      expect(JSON.stringify(told)).not.toContain('not to be told');
      const own = instances();
      for (const victim of names) {
        const inside = processesIn(home);
        expect(inside.length).toBeGreaterThan(1);
        process.kill((victims[victim] as (typeof victims)[string])(wrapped), 'SIGKILL');
        await until(
          () => inside.every((pid) => !processesIn(home).includes(pid)),
          5000,
          () => `left: ${processesIn(home)}`,
        );
        if (victim === 'Ambit') continue;
        // The next call finds another. One that comes before Ambit has heard of the end is told so instead.
        const said = await wrapped.call('whoami');
        expect(said.startsWith('UPSTREAM_FAILED') ? await wrapped.call('whoami') : said).toContain('pid');
      }
      if (!names.includes('Ambit')) {
        wrapped.child.stdin?.end();
        expect(await once(wrapped.child, 'exit')).toEqual([0, null]);
        expect(processesIn(home)).toEqual([]);
        expect(instances()).toEqual([]);
      }
      await waitUntilEmpty(() => [...instances(), ...groups(own)], 5000);
      expect(mounts()).toEqual([]);
    },
  );

  // The pipe of the client closes as it does above, where nobody stands in between.
  test.runIf(proof)('after kill -9 of a wrapper in between nothing is left', async () => {
    const wrapper = `"${ambitRun.join('" "')}" -- node "${recorder}"; exit 1`;
    const wrapped = start('/bin/sh', '-c', wrapper);
    await wrapped.call('whoami');
    const names = instances();
    const ambit = childOf(wrapped.child.pid as number);
    wrapped.child.kill('SIGKILL');
    // The pipe of the client goes with the client, and with it Ambit.
    wrapped.child.stdin?.destroy();
    await waitUntilEmpty(() => [...processesIn(home), ...instances(), ...groups(names)], 8000);
    // It closes its journal last, in the home that is removed next.
    await until(
      () => !isAlive(ambit),
      8000,
      () => 'Ambit has not left',
    );
  });
});

const childOf = (pid: number) => Number(readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim());
const comm = (pid: number) => readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
const parentOf = (pid: number) => Number(/^PPid:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);
