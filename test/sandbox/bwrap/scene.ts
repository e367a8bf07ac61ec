import { execFileSync, type StdioOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import type { EnforcedLimits } from '../../../src/sandbox/limits/limits.ts';
import type { Exit, ProbeResult } from '../../../src/sandbox/runner.ts';
import { repository } from '../../structure/source-files.ts';
import { keptFiles, keptFolders } from '../../workspaces/default-names.ts';
import { type Account, own } from '../../workspaces/saferoot/accounts.ts';
import { until } from '../tagged-processes.ts';
import { dangerousCalls, judgedCalls } from './dangerous-calls.ts';
import { ordinaryLimits } from './sandbox-harness.ts';

export interface Report {
  readonly env: Record<string, string>;
  readonly cwd: string;
  readonly hostname: string;
  readonly status: Record<string, string>;
  readonly first: { readonly cmdline: string; readonly environ: string };
  readonly namespaces: Record<string, string>;
  /** The number of its session, as it is seen inside; 0 when the session began outside. */
  readonly session: number;
  readonly processes: number;
  readonly descriptors: string[];
  readonly root: string[];
  readonly read: unknown[];
  readonly etc: Record<string, string>;
  /** For each of `toldByKernel` and for the terminal. */
  readonly covered: string[];
  readonly write: string[];
  /** What came of writing to each of `followed`. */
  readonly ordered: string[];
  readonly moved: string[];
  readonly proc: string[];
  readonly setId: string[];
  readonly device: string;
  readonly interfaces: string[];
  readonly reached: string[];
  readonly calls: Record<string, number>;
  readonly tmpBytes: number;
}

export interface Seen {
  readonly enforced: ProbeResult['enforced'];
  readonly limits: EnforcedLimits;
  readonly report: Report;
  readonly exit: Exit;
  /** What a second one reached that was granted one host, by its proxy and past it. */
  readonly hosts: Record<string, { readonly through: string; readonly past: string }>;
  readonly granted: string;
  readonly folder: string;
}

/** An address that nobody was granted, and one where a cloud keeps its secrets. */
export const notGranted = ['127.0.0.1:1', '169.254.169.254:80'] as const;

/** Files of the kernel that tell of the machine, its memory, and others on it. */
const toldByKernel = ['cmdline', 'kcore', 'keys', 'key-users', 'kmsg', 'latency_stats', 'sched_debug', 'slabinfo']
  .concat('timer_list', 'vmallocinfo')
  .map((name) => `/proc/${name}`);

/** Files of a workspace that a person or a trusted program follows later. */
export const followed = [
  ...keptFiles,
  ...[...keptFolders, '.ssh'].map((name) => `${name}/x`),
  '.git/info/exclude',
  '.git/hooks/pre-commit',
  '.git/config',
];

const files = {
  ...Object.fromEntries(followed.map((name) => [`ws/${name}`, 'as it was'])),
  'data/secret': 'of the gateway',
  'data/keys/public/jwks.json': '{"keys":[]}',
  'etc/ambit.yaml': 'version: 1',
  'ws/note': 'mine',
  'other/note': 'of another session',
  'readable/note': 'granted',
  'writable/note': 'granted',
};

/** Everything a sandbox is to be kept from, and one that has been started in the midst of it. */
export async function lookInside(account: Account, runner: 'bwrap' | 'container' = 'bwrap'): Promise<Seen> {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-bwrap-')));
  const run = join(folder, 'run');
  const server = createServer((socket) => socket.end('reached'));
  const abstract = createServer((socket) => socket.end());
  try {
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(join(folder, name, '..'), { recursive: true });
      writeFileSync(join(folder, name), content);
    }
    const library = join(folder, 'library');
    cpSync(join(repository, 'build'), library, { recursive: true });
    const program = join(folder, 'program');
    mkdirSync(program);
    for (const name of ['looks-around.js', 'starts-one.js', '../egress/reaches.js'])
      copyFileSync(join(import.meta.dirname, name), join(program, basename(name)));
    for (const each of [library, program]) writeFileSync(join(each, 'package.json'), '{"type":"module"}');
    for (const each of [run, join(folder, 'home')]) mkdirSync(each, { mode: 0o700 });
    if (account.uid !== own.uid) execFileSync('chown', ['-R', `${account.uid}:${account.gid}`, folder]);
    chmodSync(folder, 0o755);

    server.listen(0, '127.0.0.1');
    const hidden = `\0ambit-test-${process.pid}-${account.uid}`;
    abstract.listen(hidden);
    await Promise.all([once(server, 'listening'), once(abstract, 'listening')]);
    const { port } = server.address() as { port: number };
    const granted = `127.0.0.1:${port}`;
    const toMount = (name: string, target = join(folder, name)) => ({ source: join(folder, name), target });
    const scene = {
      runner,
      library,
      folder,
      scripts: { looksAround: join(program, 'looks-around.js'), reaches: join(program, 'reaches.js') },
      hosts: { allowed: [granted], places: [granted, ...notGranted] },
      env: { AMBIT_SESSION_ID: 's1', SECRET: 'told only inside' },
      confinement: {
        home: toMount('ws'),
        readable: [toMount('readable'), toMount('data/keys/public', '/run/ambit')],
        writable: [toMount('writable')],
        hidden: [join(folder, 'data'), join(folder, 'etc/ambit.yaml'), join(folder, 'other')],
        limits: ordinaryLimits,
      },
      asked: {
        read: ['ws/note', 'readable/note', 'writable/note', 'data', 'data/secret', 'etc/ambit.yaml', 'other', '.']
          .map((name) => join(folder, name))
          .concat('/run/ambit/jwks.json', '/etc/shadow', '/root', '/home', '/sys', '/proc/keys', '/var', '/boot'),
        covered: [...toldByKernel, '/dev/tty'],
        write: ['ws/new', 'ws/.git/HEAD', 'writable/new', 'readable/new', 'ws/.git/hooks/post-commit', 'ws/.git/config']
          .concat('ws/.mcp.json', 'program/looks-around.js', 'new')
          .map((name) => join(folder, name))
          .concat('/tmp/new', '/tmp/home/new', '/etc/new', '/usr/new', '/dev/shm/new', '/run/ambit/new', '/new'),
        ordered: followed.map((name) => join(folder, 'ws', name)),
        move: [
          [join(folder, 'ws/.git'), join(folder, 'ws/gone')],
          [join(folder, 'ws/.mcp.json'), join(folder, 'ws/gone')],
        ],
        reach: [{ host: '127.0.0.1', port }, { path: hidden }, { host: '192.0.2.1', port: 80 }],
        calls: callsToTry(),
      },
    };
    const args = [join(program, 'starts-one.js'), JSON.stringify(scene)];
    const env = {
      ...{ PATH: process.env['PATH'], HOST_SECRET: 'not to be told', AMBIT_TEST: 'not to be told' },
      ...(account.uid === own.uid ? {} : { HOME: join(folder, 'home'), XDG_RUNTIME_DIR: run }),
    };
    // Inherited as a shell would hand them down: were one to come along, it would be a way out.
    const outside = openSync('/', 'r');
    const stdio = [
      'ignore',
      'pipe',
      'inherit',
      'ignore',
      'ignore',
      outside,
      ...Array<'ignore'>(20).fill('ignore'),
      outside,
    ];
    const child = spawn(process.execPath, args, { ...account, env, cwd: '/', stdio: stdio as StdioOptions });
    closeSync(outside);
    const said = await text(child.stdout as Readable);
    return { ...(JSON.parse(said) as Omit<Seen, 'folder' | 'granted'>), granted, folder };
  } finally {
    server.close();
    abstract.close();
    endPause(run);
    // What the engine of an ordinary account does after a container has ended, it does in this folder.
    await until(
      () => processesOf(folder).length === 0,
      10_000,
      () => `still at work: ${processesOf(folder)}`,
    );
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The podman of an ordinary account keeps a process of its own, whose folder goes away here. */
function endPause(run: string): void {
  const file = join(run, 'libpod/tmp/pause.pid');
  if (existsSync(file)) process.kill(Number(readFileSync(file, 'latin1')), 'SIGKILL');
}

/** Those that have their home in the folder. */
function processesOf(folder: string): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      return /^\d+$/.test(pid) && readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`HOME=${folder}/`);
    } catch {
      return false;
    }
  });
}

function callsToTry(): (readonly (string | number)[])[] {
  const column = process.arch === 'x64' ? 0 : 1;
  const dangerous = Object.entries(dangerousCalls).flatMap(([call, numbers]) => {
    const number = numbers[column];
    return number === null ? [] : [[call, number, 0, 0, 0, 0, 0]];
  });
  const of = (call: 'clone' | 'clone3' | 'socket' | 'ioctl') => judgedCalls[call][column];
  const newUser = 0x10000000;
  return [
    ...dangerous,
    ['clone into a user namespace', of('clone'), newUser | 17, 0, 0, 0, 0],
    ['clone3', of('clone3'), 0, 0],
    ['vsock', of('socket'), 40, 1, 0],
    ['packet', of('socket'), 17, 3, 0],
    ['TIOCSTI', of('ioctl'), 0, 0x5412, 0],
    ['TIOCSTI with bits that the kernel ignores', of('ioctl'), 0, 2 ** 32 + 0x5412, 0],
    ['TIOCLINUX', of('ioctl'), 0, 0x541c, 0],
    ['a call of tomorrow', 900],
  ];
}
