import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  type GatewayEntry,
  listRunningGateways,
  type Registration,
  registerGateway,
} from '../../../src/entrances/control/gateway-registry.ts';

const isRoot = process.getuid?.() === 0;
const someoneElse = 12_345;
const mode = (path: string) => (lstatSync(path).mode & 0o777).toString(8);

let folder: string;
let listening: Server[];
let registrations: Registration[];
const at = (...names: string[]) => join(folder, ...names);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-listing-'));
  for (const name of ['home', 'runtime']) mkdirSync(at(name), { mode: 0o700 });
  listening = [];
  registrations = [];
});
afterEach(async () => {
  for (const { remove } of registrations) remove();
  await Promise.all(listening.map((server) => new Promise((resolve) => server.close(resolve))));
  rmSync(folder, { recursive: true, force: true });
});

const places = (runtime: string | undefined = at('runtime')) => ({
  env: { XDG_RUNTIME_DIR: runtime },
  home: at('home'),
});
const inRuntime = (...names: string[]) => at('runtime/ambit', ...names);
const inHome = (...names: string[]) => at('home/.local/state/ambit/run', ...names);

/** Listens where the control socket of a gateway would be. */
async function listen(name: string): Promise<Pick<GatewayEntry, 'configFile' | 'dataDir' | 'socket'>> {
  const dataDir = at(name);
  mkdirSync(dataDir, { mode: 0o700 });
  const socket = join(dataDir, 'control.sock');
  const server = createServer((connection) => connection.destroy());
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  listening.push(server);
  return { configFile: at(`${name}.yaml`), dataDir, socket };
}

async function register(name: string, where = places(), renewMs?: number): Promise<Registration> {
  const registration = await registerGateway(await listen(name), where, renewMs);
  registrations.push(registration);
  return registration;
}

async function listNames(where = places()): Promise<string[]> {
  return (await listRunningGateways(where)).map(({ dataDir }) => dataDir.slice(folder.length + 1)).sort();
}

/** The only entry of a folder, and its file. */
function onlyEntry(path: string): { file: string; entry: GatewayEntry } {
  const [name = '', ...more] = readdirSync(path);
  expect(more).toEqual([]);
  return { file: join(path, name), entry: JSON.parse(readFileSync(join(path, name), 'utf8')) as GatewayEntry };
}

describe('a gateway', () => {
  it('is listed in a private folder and file, with its configuration, and removed again', async () => {
    const one = await register('one');
    await register('two');
    expect([one.folder, mode(inRuntime())]).toEqual([inRuntime(), '700']);
    expect(readdirSync(inRuntime()).map((name) => mode(inRuntime(name)))).toEqual(['600', '600']);
    expect(await listNames()).toEqual(['one', 'two']);
    expect((await listRunningGateways(places())).find(({ dataDir }) => dataDir === at('one'))).toEqual({
      configFile: at('one.yaml'),
      dataDir: at('one'),
      socket: at('one/control.sock'),
      pid: process.pid,
      processStart: process.platform === 'linux' ? expect.any(Number) : null,
      startedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
    one.remove();
    expect(await listNames()).toEqual(['two']);
    expect(readdirSync(inRuntime())).toHaveLength(1);
    expect(existsSync(inHome())).toBe(false);
  });

  it('is listed in the home folder without a runtime folder, and found from both environments', async () => {
    await register('one', places(''));
    await register('two', places());
    expect(await listNames(places(''))).toEqual(['one']);
    expect(await listNames(places())).toEqual(['one', 'two']);
    expect(mode(inHome())).toBe('700');
  });

  it('that was killed is not listed, and the next one that starts removes its entry, and only that', async () => {
    await register('running');
    const { file, entry } = onlyEntry(inRuntime());
    const killed = { ...entry, dataDir: at('killed'), socket: at('killed/control.sock') };
    writeFileSync(inRuntime('0'.repeat(16).concat('.json')), JSON.stringify(killed), { mode: 0o600 });
    writeFileSync(inRuntime('1'.repeat(16).concat('.json')), '{ "half', { mode: 0o600 });
    writeFileSync(inRuntime('notes.txt'), 'not of Ambit');
    expect(await listNames()).toEqual(['running']);
    const next = await register('next');
    expect(await listNames()).toEqual(['next', 'running']);
    expect(readdirSync(inRuntime())).toHaveLength(3);
    expect([existsSync(file), existsSync(inRuntime('notes.txt'))]).toEqual([true, true]);
    next.remove();
    expect(await listNames()).toEqual(['running']);
  });

  it('leaves the entry of another gateway on the same data directory', async () => {
    const first = await register('one');
    const { file, entry } = onlyEntry(inRuntime());
    writeFileSync(file, JSON.stringify({ ...entry, pid: 1 }));
    first.remove();
    expect(existsSync(file)).toBe(true);
  });

  it('is listed again after its entry was removed, as when the user logs out', async () => {
    await register('one', places(), 5);
    rmSync(inRuntime(), { recursive: true });
    await expect.poll(() => listNames()).toEqual(['one']);
    expect([mode(inRuntime()), mode(onlyEntry(inRuntime()).file)]).toEqual(['700', '600']);
  });
});

describe('an entry is ignored, and does not keep the others from being read, if it', () => {
  const asOther = it.skipIf(!isRoot);
  const writeChanged = (file: string, entry: GatewayEntry, change: object) =>
    writeFileSync(file, JSON.stringify({ ...entry, ...change }));
  const cases: [string, (file: string, entry: GatewayEntry) => void][] = [
    ['is no JSON', (file) => writeFileSync(file, 'configFile: x')],
    ['is null', (file) => writeFileSync(file, 'null')],
    ['is a list', (file) => writeFileSync(file, '[]')],
    ['is empty', (file) => writeFileSync(file, '')],
    ['is huge', (file, entry) => writeChanged(file, entry, { more: 'x'.repeat(20_000) })],
    ['names a process by a text', (file, entry) => writeChanged(file, entry, { pid: `${entry.pid}` })],
    ['names process 0', (file, entry) => writeChanged(file, entry, { pid: 0 })],
    ['has no start of the process', (file, entry) => writeChanged(file, entry, { processStart: undefined })],
    ['has no start time', (file, entry) => writeChanged(file, entry, { startedAt: 'soon' })],
    ['names a relative configuration', (file, entry) => writeChanged(file, entry, { configFile: 'ambit.yaml' })],
    ['names a relative data directory', (file, entry) => writeChanged(file, entry, { dataDir: '../data' })],
    ['has a path with a zero byte', (file, entry) => writeChanged(file, entry, { socket: `${entry.socket}\0` })],
    ['names a socket that is not there', (file, entry) => writeChanged(file, entry, { socket: at('none/c.sock') })],
    ['names a plain file as socket', (file, entry) => writeChanged(file, entry, { socket: file })],
    ['names a socket nobody listens on', (_, entry) => renameSync(entry.socket, `${entry.socket}.old`)],
    ['names a socket in a folder of all', (_, entry) => chmodSync(dirname(entry.socket), 0o777)],
    ['may be written by others', (file) => chmodSync(file, 0o666)],
    [
      'is a pipe, which would never answer',
      (file) => {
        rmSync(file);
        execFileSync('mkfifo', [file]);
      },
    ],
    [
      'is a link',
      (file) => {
        renameSync(file, at('elsewhere.json'));
        symlinkSync(at('elsewhere.json'), file);
      },
    ],
    [
      'is a folder',
      (file) => {
        rmSync(file);
        mkdirSync(file);
      },
    ],
    ['has another kind of name', (file) => renameSync(file, file.replace('.json', '.json.bak'))],
  ];
  const ofOthers: typeof cases = [
    ['belongs to somebody else', (file) => chownSync(file, someoneElse, someoneElse)],
    ['names the socket of somebody else', (_, { socket }) => chownSync(socket, someoneElse, someoneElse)],
    ['names a socket in a folder of somebody else', (_, { dataDir }) => chownSync(dataDir, someoneElse, someoneElse)],
  ];
  // Without /proc nobody can tell, and the socket alone decides.
  const ofProcesses: typeof cases = [
    ['is of a process that is gone', (file, entry) => writeChanged(file, entry, { pid: 2 ** 30 })],
    [
      'is of an earlier process with the same number',
      (file, entry) => writeChanged(file, entry, { processStart: (entry.processStart ?? 0) - 1 }),
    ],
  ];

  async function expectIgnored(change: (file: string, entry: GatewayEntry) => void): Promise<void> {
    await register('odd');
    const { file, entry } = onlyEntry(inRuntime());
    await register('good');
    expect(await listNames()).toEqual(['good', 'odd']);
    change(file, entry);
    expect(await listNames()).toEqual(['good']);
    // The next gateway starts all the same.
    expect((await register('next')).folder).toBe(inRuntime());
    expect(await listNames()).toEqual(['good', 'next']);
  }

  it.each(cases)('%s', (_, change) => expectIgnored(change));
  asOther.each(ofOthers)('%s', (_, change) => expectIgnored(change));
  it.skipIf(process.platform !== 'linux').each(ofProcesses)('%s', (_, change) => expectIgnored(change));
});

describe('a runtime folder is neither read nor written, and the home folder is used, if it', () => {
  /** Each prepares a folder in which somebody has put a valid entry, and returns XDG_RUNTIME_DIR. */
  const cases: [string, () => string][] = [
    ['is relative', () => 'runtime'],
    ['is not there', () => at('missing')],
    [
      'is a file',
      () => {
        writeFileSync(at('file'), '');
        return at('file');
      },
    ],
    [
      'can be written by all, as a shared temporary folder',
      () => {
        chmodSync(at('runtime'), 0o1777);
        return at('runtime');
      },
    ],
    [
      'lies below a folder that all can write',
      () => {
        mkdirSync(at('open'));
        renameSync(at('runtime'), at('open/runtime'));
        chmodSync(at('open'), 0o777);
        return at('open/runtime');
      },
    ],
    [
      'has a list that is a link',
      () => {
        renameSync(inRuntime(), at('planted'));
        symlinkSync(at('planted'), inRuntime());
        return at('runtime');
      },
    ],
    [
      'has a list that others can write',
      () => {
        chmodSync(inRuntime(), 0o777);
        return at('runtime');
      },
    ],
  ];
  const ofOthers: typeof cases = [
    [
      'belongs to somebody else',
      () => {
        chownSync(at('runtime'), someoneElse, someoneElse);
        return at('runtime');
      },
    ],
    [
      'has a list of somebody else',
      () => {
        chownSync(inRuntime(), someoneElse, someoneElse);
        return at('runtime');
      },
    ],
  ];

  async function expectDistrusted(prepare: () => string): Promise<void> {
    await register('planted-gateway');
    const runtime = prepare();
    expect(await listNames(places(runtime))).toEqual([]);
    const { folder: used, problems } = await register('own', places(runtime));
    expect([used, problems.length]).toEqual([inHome(), runtime === 'runtime' ? 0 : 1]);
    expect(await listNames(places(runtime))).toEqual(['own']);
    expect(existsSync(at('missing'))).toBe(false);
  }

  it.each(cases)('%s', (_, prepare) => expectDistrusted(prepare));
  it.skipIf(!isRoot).each(ofOthers)('%s', (_, prepare) => expectDistrusted(prepare));
});

it('without any folder that can be trusted a gateway is not listed, and says why', async () => {
  chmodSync(at('home'), 0o777);
  const { folder: used, problems } = await register('one', places(at('missing')));
  expect([used, problems]).toEqual([
    undefined,
    [expect.stringContaining('missing'), expect.stringContaining(`other users can write to ${at('home')}`)],
  ]);
  const homeless = { env: { XDG_RUNTIME_DIR: 'x' }, home: at('nobody') };
  expect(await register('two', homeless)).toMatchObject({ folder: undefined, problems: [expect.any(String)] });
  expect(await listNames(homeless)).toEqual([]);
  expect(existsSync(at('nobody'))).toBe(false);
});
