import { existsSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { findConfiguredFiles } from '../../config/load/configured-paths.ts';
import { listRegistryFolders } from '../../config/load/out-of-reach.ts';
import { isInside, resolveSymlinks } from '../../config/load/resolve-symlinks.ts';
import { listWritableFolders } from '../../config/load/workspace-folders.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Confinement, Guard, Mount } from '../../sandbox/common/confinement.ts';
import { createPathGuard, createPathRules } from '../../workspaces/path-guard.ts';
import type { WorkspaceConfig } from '../../workspaces/workspaces.ts';
import type { StdioServer } from '../definition.ts';

/** The folder of packages that servers are started from. */
export const packagesFolder = (dataDir: string): string => join(dataDir, 'packages');

/** The path of the public keys inside a sandbox. */
export const sandboxJwksPath = '/run/ambit/jwks.json';

interface ConfinementOptions {
  readonly server: StdioServer;
  /** The workspace, or the folder the process has in place of one. */
  readonly cwd: string;
  /** The one workspace the process serves, where it does not work in it. */
  readonly workspace: string | undefined;
  /** The configuration of the workspace that it works in or serves. */
  readonly rules: WorkspaceConfig | undefined;
  readonly config: Config;
  readonly configFile: string;
  readonly dataDir: string;
  readonly jwksFile: string | undefined;
}

/** Creates the confinement of a server's process in a sandboxed session. The working directory must exist. */
export function createConfinement(options: ConfinementOptions): Confinement {
  const { server, cwd, workspace, rules, config, configFile, dataDir, jwksFile } = options;
  const { sandbox } = server;
  const guard = createGuard(rules);
  const home: Mount & { guard: Guard } = { source: resolveRealPath(cwd), target: cwd, guard };
  const served = workspace === undefined ? [] : [{ source: resolveRealPath(workspace), target: workspace, guard }];
  const more = sandbox.writable.flatMap(mountsFor).map((mount) => ({ ...mount, guard: createGuard(undefined) }));
  const writable = [...served, ...more];
  const open = findSessionWritablePaths(config);
  const rewritable = [...[home, ...writable].map(({ source }) => source), ...open];
  const paths = [cwd, ...(workspace === undefined ? [] : [workspace]), ...sandbox.readable, ...sandbox.writable];
  for (const path of paths) assertNoRewritableLink(path, rewritable, server.name);
  const others = listWritableFolders(config)
    .map(({ path, isOfPattern }) => ({ path: resolveRealPath(path), isOfPattern }))
    // Beside the home in the folder of a pattern lie the workspaces of others. The home itself is granted.
    .filter(({ path, isOfPattern }) => isOfPattern || !isInside(home.source, path))
    .map(({ path }) => path);
  return {
    home,
    writable,
    readable: [...sandbox.readable.flatMap(mountsFor), ...mountKeys(jwksFile)],
    // As a library, Ambit may have a name for its configuration without a file.
    hidden: [configFile, dataDir, ...listRegistryFolders()]
      .concat(findConfiguredFiles(config, 'secret').map(({ path }) => path))
      .flatMap((path) => (existsSync(path) ? [resolveRealPath(path)] : []))
      .concat(others),
    masked: findIncludedFiles(config, rules, [home, ...served]),
    open,
    packages: resolveRealPath(packagesFolder(dataDir)),
    limits: sandbox.limits,
    network: sandbox.network,
    ...(sandbox.image === undefined ? {} : { image: sandbox.image }),
  };
}

/**
 * Finds the files that the configuration includes, and their copies in a session's own folder. They may hold secrets of
 * other servers.
 */
function findIncludedFiles(config: Config, rules: WorkspaceConfig | undefined, own: readonly Mount[]): string[] {
  const files = findConfiguredFiles(config, 'included').map(({ path }) => resolveRealPath(path));
  const folder = rules?.path === undefined ? undefined : resolveRealPath(rules.path);
  const copies = files
    .filter((file) => folder !== undefined && isInside(file, folder))
    .flatMap((file) => own.map(({ source }) => join(source, relative(folder as string, file))));
  return [...new Set([...files, ...copies])];
}

/** Applies the rules of the session's file tools to its servers. */
function createGuard(rules: WorkspaceConfig | undefined): Guard {
  if (rules === undefined) return { git: 'read' };
  const { refusal } = createPathGuard(createPathRules(rules.files));
  return { git: rules.git, mayWrite: (names) => refusal('write', names) === undefined };
}

/** Finds every workspace and every path that a server may write. */
function findSessionWritablePaths(config: Config): string[] {
  const named = [
    ...listWritableFolders(config).map(({ path }) => path),
    ...Object.values(config.servers).flatMap((each) => (each.transport === 'http' ? [] : each.sandbox.writable)),
  ];
  return [...new Set(named.map(resolveRealPath))];
}

function resolveRealPath(path: string): string {
  return resolveSymlinks(path).at(-1) ?? path;
}

/** Mounts a path under its own name and under the path that its links lead to. */
function mountsFor(path: string): Mount[] {
  const source = resolveRealPath(path);
  return [...new Set([source, path])].map((target) => ({ source, target }));
}

/** Refuses a link that any session can rewrite: it could choose what the sandbox shows. */
function assertNoRewritableLink(path: string, open: readonly string[], server: string): void {
  const links = resolveSymlinks(path).slice(0, -1);
  if (!links.some((link) => open.some((folder) => isInside(link, folder)))) return;
  throw new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `A path in the sandbox of the server "${server}" leads through a symbolic link that its sessions can change: ${path}`,
    hint: 'The operator can use the real path in servers.<name>.sandbox.',
  });
}

function mountKeys(jwksFile: string | undefined): Mount[] {
  if (jwksFile === undefined || basename(jwksFile) !== basename(sandboxJwksPath)) return [];
  return [{ source: resolveRealPath(dirname(jwksFile)), target: dirname(sandboxJwksPath) }];
}
