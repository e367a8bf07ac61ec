import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, isAbsolute, join } from 'node:path';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { pickVariables } from '../common/base-environment.ts';
import { findProgramOnPath } from '../common/find-program.ts';
import type { ProcessLaunch } from '../runner.ts';
import { locateMachineFile } from './npm-sources.ts';
import { proxyVariables } from './package-sources.ts';

/** The additions for an npx that is started as written: they are for npx, not for the server that it starts. */
export interface NpxSetup {
  readonly env: Readonly<Record<string, string>>;
  /** A file that is made when everything is installed. Without it, a later start uses another cache. */
  readonly completeFile?: string | undefined;
}

/** Flags by which the operator asks for something of the workspace, or for another folder. */
const localFlags = /^(?:\.|file:|~|--no$|--no-install$|--offline$|--prefix|-C$|-w$|--workspace)/;
const completeName = 'complete';
/** The age at which a cache without everything is removed. A process may still run from it. */
const maxIncompleteMs = 7 * 24 * 3600 * 1000;

/** Whether npx is asked to install something, and not to run what the workspace has. */
export function isInstallingNpx({ command, args }: Pick<ProcessLaunch, 'command' | 'args'>): boolean {
  if (basename(command) !== 'npx' || (command.includes('/') && !isAbsolute(command))) return false;
  const first = args.findIndex((arg) => !arg.startsWith('-'));
  return !args.slice(0, first === -1 ? args.length : first + 1).some((arg) => localFlags.test(arg));
}

/**
 * Prepares an npx that is started as written; undefined where it installs nothing. It gets the proxies of the user, and
 * a cache of its own: an npx that is killed leaves a broken one behind.
 */
export function prepareNpx(
  root: string,
  start: Pick<ProcessLaunch, 'command' | 'args' | 'env'>,
  host: NodeJS.ProcessEnv,
  /** Settings of the server that lead to another registry, and so to other packages. */
  settings: readonly string[] = [],
): NpxSetup | undefined {
  if (!isInstallingNpx(start)) return undefined;
  const configured = new Set(Object.keys(start.env).map((name) => name.toLowerCase()));
  const names = proxyVariables.filter((name) => !configured.has(name.toLowerCase()));
  const npm = findProgramOnPath('npm', start.env['PATH']);
  // npx starts with another prefix, below which it would look for the settings of the machine.
  const machine = npm === undefined || configured.has('npm_config_globalconfig') ? {} : locateMachineFile(host, npm);
  const more = { ...pickVariables(host, names), ...machine };
  if (configured.has('npm_config_cache')) return { env: more };
  const cache = findCache(join(root, sha256Hex(JSON.stringify([start.args, settings])).slice(0, 16)));
  return { env: { ...more, npm_config_cache: cache }, completeFile: join(cache, completeName) };
}

/** Removes the cache of an npx that has ended before everything was installed. Each further try would leave another. */
export async function dropIncompleteCache({ completeFile }: NpxSetup): Promise<void> {
  if (completeFile !== undefined && !existsSync(completeFile)) await removeFolder(dirname(completeFile));
}

/** Finds the cache in which npx has installed everything, or makes a new one. */
function findCache(home: string): string {
  mkdirSync(home, { recursive: true, mode: 0o700 });
  const known = readdirSync(home).map((name) => join(home, name));
  const complete = known.find((folder) => existsSync(join(folder, completeName)));
  for (const folder of known) if (folder !== complete && isOld(folder)) void removeFolder(folder);
  if (complete !== undefined) return complete;
  const folder = join(home, `cache-${randomBytes(6).toString('hex')}`);
  mkdirSync(folder, { mode: 0o700 });
  return folder;
}

function isOld(folder: string): boolean {
  const facts = statSync(folder, { throwIfNoEntry: false });
  return facts !== undefined && Date.now() - facts.mtimeMs > maxIncompleteMs;
}
