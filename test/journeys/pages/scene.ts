import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { ambitBin, repository } from '../start-ambit.ts';

/** An empty home folder and a folder of programs that comes first on PATH. */
export interface PageScene {
  readonly home: string;
  readonly env: NodeJS.ProcessEnv;
  readonly programs: string;
  remove(): void;
}

/** The names of the user's own environment that a program needs anywhere. The pages rely on no other. */
const kept = ['LANG', 'TMPDIR', 'npm_config_cafile', 'NODE_EXTRA_CA_CERTS'];

export function keepEnvironment(): NodeJS.ProcessEnv {
  return Object.fromEntries(
    kept.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])),
  );
}

export function createScene(): PageScene {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-home-')));
  const [home, programs] = [join(folder, 'ada'), join(folder, 'bin')];
  mkdirSync(home);
  mkdirSync(programs);
  const path = [programs, dirname(process.execPath), process.env['PATH']].join(':');
  const env = { ...keepEnvironment(), PATH: path, HOME: home };
  return { home, env, programs, remove: () => rmSync(folder, { recursive: true, force: true }) };
}

/** Ends the gateways that a page has started in the background. A page that succeeds leaves none. */
export function endBackgroundGateways({ home }: PageScene): void {
  const folder = join(home, '.local/state/ambit/run');
  if (!existsSync(folder)) return;
  for (const name of readdirSync(folder).filter((each) => each.endsWith('.json'))) {
    const { pid } = JSON.parse(readFileSync(join(folder, name), 'utf8')) as { pid: number };
    if (existsSync(`/proc/${pid}`)) process.kill(pid);
  }
}

/** A checkout made of links, and its command. The examples are copied: their servers write. */
export function linkCheckout({ home, programs }: PageScene): void {
  symlinkSync(ambitBin, join(programs, 'ambit'));
  const folder = join(home, 'ambit');
  mkdirSync(folder);
  for (const name of readdirSync(repository)) {
    if (name !== 'examples' && name !== '.git') symlinkSync(join(repository, name), join(folder, name));
  }
  cpSync(join(repository, 'examples'), join(folder, 'examples'), {
    recursive: true,
    // A demo that is running may be changing these.
    filter: (path) => !/\/(?:notes\.txt|workspaces\/orchard)$/.test(path),
  });
}
