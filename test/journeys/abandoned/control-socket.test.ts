import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { requestControl } from '../request-control.ts';
import { runAmbit, type ServeProcess, startServe } from '../start-ambit.ts';
import { upstreamProgram } from '../start-probed-ambit.ts';
import { connectRawClient } from './raw-client.ts';

const mode = (path: string) => (statSync(path).mode & 0o777).toString(8);
const servers = { plain: { command: process.execPath, args: [upstreamProgram] } };

let folder: string;
let running: ServeProcess[];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-control-'));
  mkdirSync(join(folder, 'etc'));
  writeFileSync(join(folder, 'etc', 'ambit.yaml'), JSON.stringify({ version: 1, servers }));
  running = [];
});
afterEach(async () => {
  await Promise.all(running.map((each) => each.stop('SIGKILL')));
  rmSync(folder, { recursive: true, force: true });
});

const placesIn = (dataDir: string) => ['--config', join(folder, 'etc', 'ambit.yaml'), '--data-dir', dataDir];

async function start(dataDir: string, env: NodeJS.ProcessEnv = {}): Promise<ServeProcess> {
  const serving = await startServe(placesIn(dataDir), env);
  running.push(serving);
  return serving;
}

describe('the control socket', () => {
  it('is taken by one of two gateways that start at the same moment, and goes with it unless it is killed', async () => {
    const dataDir = join(folder, 'data');
    const socket = join(dataDir, 'control.sock');
    for (let round = 0; round < counts(1, 50); round++) {
      const umask = process.umask(0);
      const both = [start(dataDir), start(dataDir)];
      process.umask(umask);
      const refused = (await Promise.allSettled(both)).flatMap((each) =>
        each.status === 'rejected' ? [each.reason as Error] : [],
      );
      expect(refused.map(({ message }) => message)).toEqual([
        expect.stringMatching(/Another gateway is already running/),
      ]);
      expect(await requestControl(socket, 'GET', '/api/v1/sessions')).toMatchObject({ sessions: [] });
      // Both are for the user alone, whatever the umask.
      expect([mode(socket), mode(dataDir)]).toEqual(['600', '700']);
      // Every other time a stale one is left to be replaced.
      const killed = round % 2 === 0;
      const codes = await Promise.all(running.splice(0).map((each) => each.stop(killed ? 'SIGKILL' : 'SIGTERM')));
      expect(codes).toEqual([killed ? null : 0]);
      expect(existsSync(socket)).toBe(killed);
    }
    await expectSecondKeptOff(dataDir, socket);
  });

  /** On a data directory where a killed gateway has left its socket. */
  async function expectSecondKeptOff(dataDir: string, socket: string): Promise<void> {
    const first = await start(dataDir);
    const { id, token } = await requestControl<{ id: string; token: string }>(socket, 'POST', '/api/v1/sessions', {
      trustLevel: 'direct',
    });
    const visitor = await connectRawClient('modern', { url: `${first.url}/mcp/plain`, token });
    const { pid } = await visitor.whoami();
    const { code, stdout, stderr } = await runAmbit(['serve', '--port', '0', '--json', ...placesIn(dataDir)]);
    expect([code, stdout]).toEqual([1, '']);
    expect(stderr).toMatch(/Another gateway is already running on this data directory/);
    expect(stderr).toMatch(/--data-dir/);
    // The first one is unharmed.
    expect((await visitor.whoami()).pid).toBe(pid);
    expect(readdirSync(join(dataDir, 'run'))).toEqual([id]);
    expect(await requestControl(socket, 'GET', '/api/v1/sessions')).toMatchObject({ sessions: [{ id }] });
    expect(await first.stop('SIGTERM')).toBe(0);
    expect(existsSync(socket)).toBe(false);
  }
});

it('S2: with a data directory too deep for a socket it stands there too, and nothing in a folder that all share', async () => {
  const deep = join(folder, ...Array.from({ length: 8 }, () => 'a-rather-long-name'), 'data');
  const socket = join(deep, 'control.sock');
  const shared = join(folder, 'shared');
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  const env = { XDG_RUNTIME_DIR: '', TMPDIR: shared };
  const serving = await start(deep, env);
  const created = await runAmbit(['session', 'create', '--trust', 'direct', '--json', ...placesIn(deep)], env);
  const { token } = JSON.parse(created.stdout) as { token: string };
  const visitor = await connectRawClient('handshake', { url: `${serving.url}/mcp/plain`, token });
  expect((await visitor.whoami()).initialized).toBe(true);
  expect(mode(socket)).toBe('600');
  expect(readdirSync(shared)).toEqual([]);
  if (proof) await expect(start(deep, env)).rejects.toThrow(/Another gateway is already running/);
  expect(await serving.stop('SIGTERM')).toBe(0);
  expect(existsSync(socket)).toBe(false);
});
