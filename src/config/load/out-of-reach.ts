import { homedir, userInfo } from 'node:os';
import { AmbitError } from '../../errors.ts';
import { describeFileError } from '../../lib/fs/make-folders.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import type { Config } from '../schema/schema.ts';
import { findConfiguredFiles } from './configured-paths.ts';
import { locateRegistryFolders } from './locate.ts';
import { isInside, resolveSymlinks } from './resolve-symlinks.ts';
import { listWritableFolders } from './workspace-folders.ts';

interface ReachablePath {
  /** The description of the path in a message. */
  readonly name: string;
  readonly path: string;
  /** The harm that an agent could do there. */
  readonly harm: 'rewrite' | 'read';
  /** Set for the folder above the workspaces of a pattern. */
  readonly isOfPattern?: true;
}

interface OutOfReachOptions {
  /** Absent when Ambit runs without a configuration file. */
  readonly configFile?: string | undefined;
  readonly dataDir: string;
  readonly config: Config;
}

function listReachablePaths(config: Config): ReachablePath[] {
  const workspaces = listWritableFolders(config).map((each) => ({ ...each, harm: 'rewrite' as const }));
  const granted = Object.entries(config.servers).flatMap(([name, server]) => {
    if (server.transport === 'http') return [];
    const { writable, readable } = server.sandbox;
    return [
      ...writable.map((path) => ({ name: `a writable path of the server "${name}"`, path, harm: 'rewrite' as const })),
      ...readable.map((path) => ({ name: `a readable path of the server "${name}"`, path, harm: 'read' as const })),
    ];
  });
  return [...workspaces, ...granted];
}

/** Resolves the links of a path. One that cannot be resolved is reported as a problem. */
function tryResolve(path: string, problems: string[]): string[] {
  try {
    return resolveSymlinks(path);
  } catch (cause) {
    const why = describeFileError(cause)?.meaning ?? `the path cannot be resolved (${(cause as Error).message})`;
    problems.push(`${path}: ${why}`);
    return [];
  }
}

/** Real paths of folders that sessions may write. None is forgotten: a program that was put there is still there. */
const writableFolders = new Set<string>();

/** Notes the folders that sessions of a configuration may write, so that no program in them is taken for a tool. */
export function noteWritableFolders(config: Config): void {
  for (const { path, harm } of listReachablePaths(config)) {
    const real = harm === 'rewrite' ? tryResolve(path, []).at(-1) : undefined;
    if (real !== undefined) writableFolders.add(real);
  }
}

/** Whether a session may write to a path, or exchange a link on it. */
export function isWritableBySessions(path: string): boolean {
  if (writableFolders.size === 0) return false;
  const locations = tryResolve(path, []);
  return [...writableFolders].some((folder) => locations.some((location) => isInside(location, folder)));
}

/** Lists the paths through which a session could rewrite a file or a link to it, as messages name them. */
export function findRewriters(config: Config, path: string): string[] {
  const locations = tryResolve(path, []);
  return listReachablePaths(config)
    .filter(({ harm }) => harm === 'rewrite')
    .filter((reach) => {
      const open = tryResolve(reach.path, []).at(-1);
      return open !== undefined && locations.some((location) => isInside(location, open));
    })
    .map(({ name }) => name);
}

/**
 * Lists the folders in which commands of this user may look for running gateways. A command may run in another
 * environment than this process, so the usual folders of the account are listed too.
 */
export function listRegistryFolders(env: NodeJS.ProcessEnv = process.env): string[] {
  const homes = [homedir, () => userInfo().homedir].flatMap((find) => {
    try {
      return [find()];
    } catch {
      // An account need not have a home folder.
      return [];
    }
  });
  const runtimes = [env['XDG_RUNTIME_DIR'], `/run/user/${process.getuid?.() ?? 0}`];
  const folders = homes.flatMap((home) =>
    runtimes.flatMap((runtime) => locateRegistryFolders({ env: { XDG_RUNTIME_DIR: runtime }, home })),
  );
  return [...new Set(folders.map(({ path }) => path))];
}

/** Finds folders of patterns in which a session could make workspaces, or put links in their place. */
function findExchangeableFolders(config: Config, reach: ReachablePath, open: string): string[] {
  return listWritableFolders(config).flatMap(({ name, path, isOfPattern }) => {
    if (!isOfPattern) return [];
    const locations = tryResolve(path, []);
    // A session writes in the folders there, not in the folder itself.
    const isItself = reach.isOfPattern === true && locations.at(-1) === open;
    if (isItself || !locations.some((location) => isInside(location, open))) return [];
    return `${name} (${path}) is inside ${reach.name} (${reach.path}), where an agent could exchange its folders; use a folder that is in no workspace and no writable path`;
  });
}

/**
 * Throws if a session could rewrite or read the configuration, the data directory, a secret, or the list of running
 * gateways, which decides where commands send what the operator types.
 */
export function assertOutOfReach({ configFile, dataDir, config }: OutOfReachOptions): void {
  const problems: string[] = [];
  const data = tryResolve(dataDir, problems);
  const own = [
    { name: 'the data directory', path: dataDir, locations: data, flag: '--data-dir' },
    ...(configFile === undefined
      ? []
      : [
          {
            name: 'the configuration file',
            path: configFile,
            locations: tryResolve(configFile, problems),
            flag: '--config',
          },
        ]),
    ...findConfiguredFiles(config, 'secret').map(({ key, path }) => ({
      ...{ name: 'the secret', path, locations: tryResolve(path, problems), flag: key },
    })),
    // A folder that this process cannot follow is out of reach of its sessions too.
    ...listRegistryFolders().map((path) => ({
      ...{ name: 'the list of running gateways', path, locations: tryResolve(path, []), flag: undefined },
    })),
  ];
  const settings = findConfiguredFiles(config, 'setting').map(({ key, path }) => ({
    ...{ name: 'the file', path, locations: tryResolve(path, problems), flag: key },
  }));
  for (const reach of listReachablePaths(config)) {
    const open = tryResolve(reach.path, problems).at(-1);
    if (open === undefined) continue;
    if (reach.harm === 'rewrite') problems.push(...findExchangeableFolders(config, reach, open));
    for (const { name, path, locations, flag } of reach.harm === 'rewrite' ? [...own, ...settings] : own) {
      if (!locations.some((location) => isInside(location, open))) continue;
      const remedy =
        flag === undefined
          ? 'use a folder further down instead'
          : `move it elsewhere and set its new path with ${flag}`;
      problems.push(
        `${name} ${path} is inside ${reach.name} (${reach.path}), where an agent could ${reach.harm} it; ${remedy}`,
      );
    }
    const dataEnd = data.at(-1);
    if (dataEnd !== undefined && open !== dataEnd && isInside(open, dataEnd)) {
      problems.push(
        `${reach.name} (${reach.path}) is inside the data directory ${dataDir}; move it elsewhere, or choose another data directory with --data-dir`,
      );
    }
  }
  if (problems.length === 0) return;
  if (data.length === 0) {
    throw new AmbitError('CONFIG_INVALID', {
      what: problems.map(escapeControls).join('\n'),
      hint: 'Choose a folder of your own with --data-dir DIR or AMBIT_DATA_DIR.',
    });
  }
  throw new AmbitError('CONFIG_INVALID', {
    what: problems.map(escapeControls).join('\n'),
    hint: 'Keep the configuration, the data directory and the list of running gateways outside of every workspace and every readable or writable path.',
  });
}
