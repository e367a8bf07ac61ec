import { existsSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { isInside, stationsOf } from '../../config/load/stations.ts';
import { filesNamedIn } from '../../config/schema/file-keys.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Confinement, Guard, Shown } from '../../sandbox/common/confinement.ts';
import { createPathGuard } from '../../workspaces/path-guard.ts';
import { pathRules } from '../../workspaces/path-rules.ts';
import type { WorkspaceConfig } from '../../workspaces/workspaces.ts';
import type { StdioServer } from '../definition.ts';

/** The folder of packages that servers are started from. */
export const packagesIn = (dataDir: string): string => join(dataDir, 'packages');

/** Where a process in a sandbox finds the public keys. */
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

/** What a server's process may see and write in a sandboxed session. Asked when its working directory is there. */
export function createConfinement(options: ConfinementOptions): Confinement {
  const { server, cwd, workspace, rules, config, configFile, dataDir, jwksFile } = options;
  const guard = createGuard(rules);
  const home = { real: resolveRealPath(cwd), inside: cwd, guard };
  const served = workspace === undefined ? [] : [{ real: resolveRealPath(workspace), inside: workspace, guard }];
  const more = server.sandbox.writable.flatMap(mountsFor).map((shown) => ({ ...shown, guard: createGuard(undefined) }));
  const writable = [...served, ...more];
  const open = findSessionWritablePaths(config);
  const rewritable = [...[home, ...writable].map(({ real }) => real), ...open];
  const { sandbox } = server;
  const paths = [cwd, ...(workspace === undefined ? [] : [workspace]), ...sandbox.readable, ...sandbox.writable];
  for (const path of paths) assertNoRewritableLink(path, rewritable, server.name);
  const others = Object.values(config.workspaces).flatMap(({ path }) =>
    path === undefined ? [] : [resolveRealPath(path)],
  );
  return {
    home,
    writable,
    readable: [...server.sandbox.readable.flatMap(mountsFor), ...mountKeys(jwksFile)],
    // Used as a library, Ambit has a name for its configuration and no file.
    hidden: [configFile, dataDir, ...filesNamedIn(config, 'secret').map(({ path }) => path)]
      .flatMap((path) => (existsSync(path) ? [resolveRealPath(path)] : []))
      .concat(others.filter((path) => !isInside(home.real, path))),
    masked: findIncludedFiles(config, rules, [home, ...served]),
    open,
    packages: resolveRealPath(packagesIn(dataDir)),
    limits: server.sandbox.limits,
    network: server.sandbox.network,
    ...(server.sandbox.image === undefined ? {} : { image: server.sandbox.image }),
  };
}

/**
 * Files that the configuration includes, where they lie and where a session has a folder of its own with a copy. They may
 * hold what other servers are given.
 */
function findIncludedFiles(config: Config, rules: WorkspaceConfig | undefined, own: readonly Shown[]): string[] {
  const files = filesNamedIn(config, 'included').map(({ path }) => resolveRealPath(path));
  const folder = rules?.path === undefined ? undefined : resolveRealPath(rules.path);
  const copies = files
    .filter((file) => folder !== undefined && isInside(file, folder))
    .flatMap((file) => own.map(({ real }) => join(real, relative(folder as string, file))));
  return [...new Set([...files, ...copies])];
}

/** What is free for the session's file tools is free for its servers. */
function createGuard(rules: WorkspaceConfig | undefined): Guard {
  if (rules === undefined) return { git: 'read' };
  const { refusal } = createPathGuard(pathRules(rules.files));
  return { git: rules.git, mayWrite: (names) => refusal('write', names) === undefined };
}

/** Every workspace, and what any server may write. */
function findSessionWritablePaths({ workspaces, servers }: Config): string[] {
  const named = [
    ...Object.values(workspaces).map(({ path }) => path),
    ...Object.values(servers).flatMap((each) => (each.transport === 'http' ? [] : each.sandbox.writable)),
  ];
  return [...new Set(named.flatMap((path) => (path === undefined ? [] : [resolveRealPath(path)])))];
}

function resolveRealPath(path: string): string {
  return stationsOf(path).at(-1) ?? path;
}

/** Under its own name, and where links lead. */
function mountsFor(path: string): Shown[] {
  const real = resolveRealPath(path);
  return real === path
    ? [{ real, inside: path }]
    : [
        { real, inside: real },
        { real, inside: path },
      ];
}

/** A link that a session can rewrite, this one or another, would let it choose what is shown. */
function assertNoRewritableLink(path: string, open: readonly string[], server: string): void {
  const links = stationsOf(path).slice(0, -1);
  if (!links.some((link) => open.some((folder) => isInside(link, folder)))) return;
  throw new AmbitError('SANDBOX_UNAVAILABLE', {
    what: `A path in the sandbox of the server "${server}" leads through a link that its sessions can rewrite: ${path}`,
    hint: 'The operator can name the place itself in servers.<name>.sandbox.',
  });
}

function mountKeys(jwksFile: string | undefined): Shown[] {
  if (jwksFile === undefined || basename(jwksFile) !== basename(sandboxJwksPath)) return [];
  return [{ real: resolveRealPath(dirname(jwksFile)), inside: dirname(sandboxJwksPath) }];
}
