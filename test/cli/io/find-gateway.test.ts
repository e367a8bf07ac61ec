import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { findGateway } from '../../../src/cli/io/find-gateway.ts';
import { locateDataDir } from '../../../src/config/load/locate.ts';
import { announceStart, type Registration, registerGateway } from '../../../src/entrances/control/gateway-registry.ts';
import { controlSocketPath } from '../../../src/entrances/control/socket-path.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

type Name = 'usual' | 'garden' | 'kitchen' | 'again';

let folder: string;
let runtime: string;
const at = (...names: string[]) => join(folder, ...names);
const opened: { close(): Promise<void> }[] = [];
const entries: Registration[] = [];

/** Each has a session with its own name, so that a list of sessions shows who answered. */
const gateways: Record<Name, () => { configFile: string; dataDir: string }> = {
  usual: () => ({ configFile: usualConfig(), dataDir: dataDirOf(usualConfig()) }),
  garden: () => ({ configFile: at('garden/ambit.yaml'), dataDir: dataDirOf(at('garden/ambit.yaml')) }),
  kitchen: () => ({ configFile: at('kitchen/ambit.yaml'), dataDir: at('elsewhere') }),
  again: () => ({ configFile: at('kitchen/ambit.yaml'), dataDir: at('again') }),
};
const usualConfig = () => at('home/.config/ambit/ambit.yaml');
const dataDirOf = (configFile: string) => locateDataDir({ env: {}, configFile, home: at('home') });

beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-find-')));
  runtime = at('runtime');
  for (const name of ['home/.config/ambit', 'garden', 'kitchen', 'ended', 'runtime'])
    mkdirSync(at(name), { recursive: true, mode: 0o700 });
  for (const name of ['home/.config/ambit', 'garden', 'kitchen', 'ended'])
    writeFileSync(
      at(name, 'ambit.yaml'),
      `version: 1\nworkspaces: { w-${name.split('/')[0]}: { path: ${at('w')}, create: true } }\n`,
    );
  symlinkSync(at('garden'), at('alias'));
  for (const name of ['XDG_STATE_HOME', 'XDG_CONFIG_HOME', 'AMBIT_CONFIG', 'AMBIT_DATA_DIR']) vi.stubEnv(name, '');
  vi.stubEnv('HOME', at('home'));
  for (const [name, paths] of Object.entries(gateways)) {
    const { configFile, dataDir } = paths();
    const controlled = await openControlledGateway(configFile, dataDir);
    await controlled.gateway.openSession({ name: `of-${name}` });
    opened.push(controlled);
  }
});
afterAll(async () => {
  for (const each of opened) await each.close();
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

async function withRunning<T>(names: readonly Name[], work: () => Promise<T>): Promise<T> {
  for (const name of names) {
    const paths = gateways[name]();
    const socket = controlSocketPath(paths.dataDir, {});
    entries.push(await registerGateway({ ...paths, socket }, { env: { XDG_RUNTIME_DIR: runtime }, home: at('home') }));
  }
  try {
    return await work();
  } finally {
    for (const { remove } of entries.splice(0)) remove();
  }
}

const run = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  ambitInProcess(args, { XDG_RUNTIME_DIR: runtime, ...env });

describe('the gateway of a command', () => {
  const using = (file: string) => `ambit: using the running gateway of ${file} (pid ${process.pid})\n`;
  /** What runs, what the command is told, who answers, and what stderr says. */
  const cases: [string, readonly Name[], () => [string[], NodeJS.ProcessEnv?], Name, () => string][] = [
    ['the one that runs', ['garden'], () => [[]], 'garden', () => using(at('garden/ambit.yaml'))],
    ['one with its own data directory', ['kitchen'], () => [[]], 'kitchen', () => using(at('kitchen/ambit.yaml'))],
    ['the usual one', ['usual'], () => [[]], 'usual', () => using('~/.config/ambit/ambit.yaml')],
    [
      'the usual one although it is not listed',
      [],
      () => [[]],
      'usual',
      () => 'ambit: using the running gateway of ~/.config/ambit/ambit.yaml\n',
    ],
    [
      'empty variables name nothing',
      ['garden'],
      () => [[], { AMBIT_CONFIG: '' }],
      'garden',
      () => using(at('garden/ambit.yaml')),
    ],
    ['by --config', ['garden', 'kitchen'], () => [['--config', at('garden/ambit.yaml')]], 'garden', () => ''],
    ['by a link to it', ['garden', 'kitchen'], () => [['--config', at('alias/ambit.yaml')]], 'garden', () => ''],
    ['by AMBIT_CONFIG', ['garden', 'usual'], () => [[], { AMBIT_CONFIG: at('garden/ambit.yaml') }], 'garden', () => ''],
    [
      'by --config, wherever its data lies',
      ['garden', 'kitchen'],
      () => [['--config', at('kitchen/ambit.yaml')]],
      'kitchen',
      () => '',
    ],
    ['by --data-dir', ['garden', 'kitchen'], () => [['--data-dir', at('elsewhere')]], 'kitchen', () => ''],
    ['by AMBIT_DATA_DIR', ['garden', 'kitchen'], () => [[], { AMBIT_DATA_DIR: at('elsewhere') }], 'kitchen', () => ''],
    [
      'by both, which decide alone',
      ['garden'],
      () => [['--config', at('kitchen/ambit.yaml'), '--data-dir', at('again')]],
      'again',
      () => '',
    ],
  ];
  it.each(cases)('%s', async (_, running, told, name, said) => {
    const [flags, env] = told();
    const { code, stdout, stderr } = await withRunning(running, () =>
      run(['session', 'list', '--json', ...flags], env),
    );
    expect({ code, stderr }).toEqual({ code: 0, stderr: said() });
    expect(JSON.parse(stdout)).toMatchObject({ sessions: [{ name: `of-${name}` }] });
  });
});

it.runIf(process.platform === 'linux')('a command waits for a gateway that is starting', async () => {
  const paths = { ...gateways.garden(), socket: controlSocketPath(gateways.garden().dataDir, {}) };
  const places = { env: { XDG_RUNTIME_DIR: runtime }, home: at('home') };
  const endStart = announceStart(paths, places);
  let looks = 0;
  const env = {
    /** Read with each look at the list. The gateway is ready when the command has looked several times. */
    get XDG_RUNTIME_DIR(): string {
      if (++looks === 5) void registerGateway(paths, places).then((entry) => [entries.push(entry), endStart()]);
      return runtime;
    },
  };
  const target = await findGateway({ flags: {}, positionals: [], passthrough: [], env });
  expect(target).toMatchObject({ configFile: at('garden/ambit.yaml'), choice: 'running' });
  for (const { remove } of entries.splice(0)) remove();
});

describe('with several running, a command asks for one and does nothing', () => {
  it('all are listed, with what names each', async () => {
    const { code, stdout, stderr } = await withRunning(['garden', 'kitchen', 'again'], () =>
      run(['user', 'add', 'ada']),
    );
    expect([code, stdout]).toEqual([2, '']);
    const lines = stderr.trimEnd().split('\n');
    expect(lines[0]).toBe('ambit: 3 gateways are running:');
    expect(lines.at(-1)).toBe('ambit: Choose one with --config FILE.');
    const since = expect.stringMatching(/ {2}\(pid \d+, since 20\d\d-.*Z\)$/);
    expect(lines.slice(1, -1)).toEqual([since, since, since]);
    for (const flags of [
      `--config ${at('garden/ambit.yaml')}  (`,
      `--config ${at('kitchen/ambit.yaml')} --data-dir ${at('elsewhere')}  (`,
      `--config ${at('kitchen/ambit.yaml')} --data-dir ${at('again')}  (`,
    ])
      expect(stderr).toContain(flags);
    const users = await run(['user', 'list', '--json', '--config', usualConfig()]);
    expect(JSON.parse(users.stdout)).toMatchObject({ users: [] });
  });

  it('also when all are of the named configuration', async () => {
    const flags = ['--config', at('kitchen/ambit.yaml')];
    const { code, stderr } = await withRunning(['kitchen', 'again', 'garden'], () => run(['key', 'list', ...flags]));
    expect(code).toBe(2);
    expect(stderr).toMatch(/^ambit: 2 gateways of this configuration are running:.*--config FILE --data-dir DIR\.\n$/s);
  });

  it('only doctor goes on, with the usual configuration', async () => {
    const { stdout, stderr } = await withRunning(['garden', 'kitchen'], () => run(['doctor', '--json']));
    expect(stderr).toBe('ambit: using the configuration ~/.config/ambit/ambit.yaml\n');
    expect(stdout).toContain(dataDirOf(usualConfig()));
  });
});

describe('with none running, a command says which store it uses', () => {
  it('of a named configuration', async () => {
    const { code, stderr } = await run(['session', 'list', '--config', at('ended/ambit.yaml')]);
    const store = `${at('ended/ambit.yaml')} (~${dataDirOf(at('ended/ambit.yaml')).slice(at('home').length)})`;
    expect({ code, stderr }).toEqual({
      code: 0,
      stderr: `ambit: no gateway is running for this configuration; using the store of ${store}\n`,
    });
  });

  it('of this user, also without a configuration; control characters do nothing', async () => {
    const file = at('empty-home', 'a\u001b[2J\n', 'ambit.yaml');
    const { code, stderr } = await run(['session', 'list', '--data-dir', at('data'), '--config', file]);
    expect(code).toBe(0);
    expect(stderr).toBe(
      `ambit: no gateway is running for this configuration; using the store in ${at('data')} (there is no configuration at ${at('empty-home')}/a\\u001b[2J\\u000a/ambit.yaml)\n`,
    );
    vi.stubEnv('HOME', at('newcomer'));
    try {
      const first = await run(['user', 'add', 'ada']);
      expect(first.stderr).toMatch(
        /^ambit: no gateway is running; using the store in ~\/.local\/state\/ambit\/ambit-[0-9a-f]{8} \(there is no configuration at ~\/.config\/ambit\/ambit.yaml\)\n$/,
      );
    } finally {
      vi.stubEnv('HOME', at('home'));
    }
  });
});

describe('commands that read the configuration', () => {
  it.each([
    ['of the one that runs', ['garden'], [], 'w-garden', /^ambit: using the running gateway of .*garden.ambit.yaml/],
    // The gateway of this user is there without being listed.
    ['of this user without one', [], [], 'w-home', /^ambit: using the running gateway of ~.*\n$/],
    ['that is named', ['garden'], ['--config', 'kitchen'], 'w-kitchen', /^$/],
  ] as const)('read that %s', async (_, running, flags, workspace, said) => {
    const named = flags.map((flag) => (flag === 'kitchen' ? at('kitchen/ambit.yaml') : flag));
    const listed = await withRunning(running, () => run(['workspace', 'list', '--json', ...named]));
    expect(listed).toMatchObject({ code: 0, stderr: expect.stringMatching(said) });
    expect(JSON.parse(listed.stdout)).toMatchObject({ workspaces: [{ name: workspace }] });
    const servers = await withRunning(running, () => run(['server', 'list', ...named]));
    expect(servers).toMatchObject({ code: 0, stderr: expect.stringMatching(said) });
  });

  it('but import works on the configuration of this user, never on that of a running gateway', async () => {
    const { code, stderr } = await withRunning(['garden'], () => run(['import', '--undo', '--yes']));
    expect([code, stderr]).toEqual([1, expect.stringContaining(`There is no backup of ${usualConfig()}.`)]);
  });
});
