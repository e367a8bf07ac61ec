import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, delimiter, dirname, isAbsolute, join } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { sha256Hex } from '../../lib/json/canonical-json.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { certificateVariables, pickVariables } from '../common/base-environment.ts';
import { findProgramOnPath, isProgram, withoutProjectFolders } from '../common/find-program.ts';
import type { ProcessLaunch, Runner } from '../runner.ts';
import { createInstaller } from './installer.ts';
import { type PackageCommand, readPackageCommand } from './package-command.ts';
import type { PackageKind, StartCommand } from './package-kind.ts';
import {
  dropNpmSettings,
  installVariables,
  isSetByProject,
  locateMachineFile,
  proxyVariables,
} from './package-sources.ts';
import { copyLockFiles, createPackageStore, type OnInstall, packageHome, readKeptPin } from './package-store.ts';
import { explainFetchFailure, packageKinds, toolMissing } from './packages.ts';
import { readSettingsFile } from './read-package-file.ts';

/** The command of a server in a direct session, with its environment. */
export interface DirectStart extends StartCommand {
  readonly env: Readonly<Record<string, string>>;
  /** Set where npx is started as written, and may install something. */
  readonly npx?: NpxSetup | undefined;
}

/** Packages of servers in direct sessions: installed with the user's rights and settings, before a server starts. */
export interface DirectPackages {
  /** Returns the start of a package that has been installed. Any other command stays as written. */
  ready(start: DirectStart): Promise<DirectStart>;
  /** Ends installations that are under way. */
  close(): Promise<void>;
}

interface DirectPackagesOptions {
  /** The folder of these packages and of the caches. No sandbox sees anything of it: scripts of packages have run in it. */
  readonly folder: string;
  /** The folder of the packages for sandboxes. A version that is pinned there is installed here too. */
  readonly sandboxed: string;
  readonly tmpRoot: string;
  readonly plain: Runner;
  readonly env: () => NodeJS.ProcessEnv;
  readonly onInstall?: OnInstall | undefined;
  readonly maxSeconds?: number;
}

const maxInstallSeconds = 600;

/** Variables of the user that an installation needs, beside the settings of its tool. */
const userVariables = [
  ...['HOME', 'LANG', 'USER', 'LOGNAME', 'XDG_CONFIG_HOME', 'XDG_DATA_HOME', 'NETRC', 'PYENV_ROOT', 'PYENV_VERSION'],
  ...['SSL_CERT_DIR', ...certificateVariables],
  ...proxyVariables,
];
const toolSettings = /^(?:npm_config_|uv_(?!publish)|bun_)/i;
/** Variables of a server that tell its install scripts what to download. Others may hold secrets of the server. */
const downloadSettings = /SKIP|DOWNLOAD|MIRROR/i;

export function createDirectPackages(options: DirectPackagesOptions): DirectPackages {
  const { folder, sandboxed, maxSeconds = maxInstallSeconds } = options;
  const cache = join(folder, 'cache');
  const store = createPackageStore({ folder, lockTimeoutMs: (maxSeconds + 60) * 1000, onInstall: options.onInstall });
  const installer = createInstaller({ plain: options.plain, tmpRoot: options.tmpRoot, maxSeconds });
  // Read at start, before any server could change the file.
  const hasProjectSettings = isSetByProject(options.env());

  async function ensureInstalled(wanted: PackageCommand, kind: PackageKind, start: DirectStart): Promise<string> {
    const host = hasProjectSettings ? dropNpmSettings(options.env()) : options.env();
    const fetcher = findFetcher(kind, start);
    if (fetcher === undefined) throw toolMissing(wanted, kind);
    const env = installEnvironment(host, start.env);
    const secrets = namedInNpmrc(host).flatMap((name) => host[name] ?? []);
    // A version that was approved, or runs in sandboxes, is the one to run here.
    const pin = readKeptPin(sandboxed, wanted);
    return store.ensureContent({
      wanted,
      kind,
      variant: ['direct', pin?.version ?? '', pin?.integrity ?? '', ...installVariant(kind, start.env, host)],
      firstLocks: pin === undefined ? undefined : packageHome(sandboxed, wanted),
      async fetch(content, locks) {
        makePrivateFolder(cache);
        try {
          if (locks !== undefined) copyLockFiles(kind.lockFiles, locks, content);
          const more = kind.tool === 'npx' ? installVariables({ ...host, ...env }, fetcher) : {};
          const run = (args: readonly string[]) =>
            installer.run({ command: fetcher, args, env: { ...more, ...env }, secrets });
          await kind.installDirectly(wanted, { folder: content, cache, locks }, run);
          return kind.readPin(wanted, content);
        } catch (error) {
          throw explainFetchFailure(wanted, error);
        }
      },
    });
  }

  return {
    async ready(start) {
      const wanted = readInstallable(start);
      if (wanted === undefined) {
        assertNoHiddenFile(start);
        const settings = listInstallSettings(start.env, options.env());
        // In the workspace bunx would prefer a program of the workspace, which a sandboxed session may have written.
        const installed = basename(start.command) === 'bunx' ? findInstalledProgram(start) : undefined;
        if (installed !== undefined) return { ...start, ...installed };
        return { ...start, npx: prepareNpx(join(folder, 'as-written'), start, options.env(), settings) };
      }
      const kind = packageKinds[wanted.tool];
      const content = await ensureInstalled(wanted, kind, start);
      const programs = join(content, kind.programFolder);
      const PATH = [programs, safeSearchPath(start.env)].join(delimiter);
      return { ...findStart(wanted, kind, content), env: { ...start.env, PATH } };
    },
    async close() {
      await installer.close();
      await store.settled();
    },
  };
}

/** A package with a version that npm takes for the name of a file. */
const hiddenFile = /^(?:--package=|-p=?)?@?[^-./~:@][^:]*@[^/:]*\.(?:tgz|tar|tar\.gz)$/i;

/**
 * Refuses `npx name@1.0.0-a.tgz`. It looks like a version of a package, but npm would install the file of that name in
 * the workspace, which a sandboxed session may have written.
 */
function assertNoHiddenFile({ command, args }: DirectStart): void {
  if (basename(command) !== 'npx') return;
  // Flags of npx may take values, so any argument may be the package.
  const hidden = args.find((arg) => hiddenFile.test(arg));
  if (hidden === undefined) return;
  throw new AmbitError('UPSTREAM_FAILED', {
    what: `npx would not fetch "${escapeControls(hidden)}" from a registry: npm takes this version for a file in the workspace.`,
    hint: 'Name a version of the package. To run the file itself, write its path, such as ./name.tgz.',
  });
}

/** Reads a command that names a package of a registry. Undefined for every other command, which is started as written. */
function readInstallable({ command, args, env }: DirectStart): PackageCommand | undefined {
  if (command.includes('/') && !isAbsolute(command)) return undefined;
  const wanted = tryReadCommand(command, args);
  if (wanted === undefined) return undefined;
  const kind = packageKinds[wanted.tool];
  // A file of this name without the tool beside it is something else.
  if (isAbsolute(command) && !isProgram(join(dirname(command), kind.fetcher))) return undefined;
  return findInstalledProgram({ command, args, env }) === undefined ? wanted : undefined;
}

/** Finds the program that the user has installed: npx and bunx prefer it to a package. */
function findInstalledProgram({ command, args, env }: DirectStart): StartCommand | undefined {
  const wanted = tryReadCommand(command, args);
  if (wanted === undefined || wanted.tool === 'uvx' || wanted.runtime === 'bun') return undefined;
  if (wanted.wanted !== '' || wanted.program !== undefined) return undefined;
  const program = findProgramOnPath(wanted.name, safeSearchPath(env));
  return program === undefined ? undefined : { command: program, args: wanted.args };
}

function tryReadCommand(command: string, args: readonly string[]): PackageCommand | undefined {
  try {
    return readPackageCommand(command, args);
  } catch (error) {
    if (isAmbitError(error)) return undefined;
    throw error;
  }
}

/** The tool beside the named program, or on the PATH of the server. */
function findFetcher({ fetcher }: PackageKind, { command, env }: DirectStart): string | undefined {
  if (isAbsolute(command)) return join(dirname(command), fetcher);
  return findProgramOnPath(fetcher, safeSearchPath(env));
}

/** The PATH without folders of a project and relative ones: a workspace must not decide what runs. */
function safeSearchPath(env: DirectStart['env']): string {
  return withoutProjectFolders(env['PATH']).split(delimiter).filter(isAbsolute).join(delimiter);
}

/** The start of an installed package. As with npx, its program may belong to one of its dependencies. */
function findStart(wanted: PackageCommand, kind: PackageKind, content: string): StartCommand {
  try {
    return kind.findStartCommand(wanted, content);
  } catch (error) {
    const program = wanted.program === undefined ? undefined : join(content, kind.programFolder, wanted.program);
    if (program === undefined || !isProgram(program)) throw error;
    return { command: program, args: wanted.args };
  }
}

/** The settings of a server that make its installation another one: a native module fits one Node only. */
function installVariant({ tool }: PackageKind, env: DirectStart['env'], host: NodeJS.ProcessEnv): string[] {
  const node = tool === 'uvx' ? undefined : findProgramOnPath('node', safeSearchPath(env));
  const runtime = node === undefined ? [] : [realpathSync.native(node)];
  return [...runtime, ...listInstallSettings(env, host)];
}

/** Lists what a server sets for its installation: another home folder or proxy may lead to another registry. */
function listInstallSettings(env: DirectStart['env'], host: NodeJS.ProcessEnv): string[] {
  const isOfTool = (name: string) => toolSettings.test(name) || downloadSettings.test(name);
  const isOfUser = (name: string, value: string) => userVariables.includes(name) && value !== host[name];
  const settings = Object.entries(env).filter(([name, value]) => isOfTool(name) || isOfUser(name, value));
  return settings.map((each) => each.join('=')).sort();
}

/** The environment of an installation: the user's settings for the tool and the network, and those of the server. */
function installEnvironment(host: NodeJS.ProcessEnv, server: DirectStart['env']): Record<string, string> {
  const names = Object.keys(host).filter((name) => toolSettings.test(name));
  const configured = Object.keys(server).filter((name) => toolSettings.test(name) || downloadSettings.test(name));
  return {
    ...pickVariables(host, [...userVariables, ...names, ...namedInNpmrc(host)]),
    ...pickVariables(server, [...userVariables, ...configured]),
    PATH: safeSearchPath(server),
  };
}

/** The variables that the user's file of npm takes credentials from, as in `_authToken=${NPM_TOKEN}`. */
function namedInNpmrc(env: NodeJS.ProcessEnv): string[] {
  const file = env['npm_config_userconfig'] ?? env['NPM_CONFIG_USERCONFIG'] ?? join(env['HOME'] ?? '/', '.npmrc');
  return [...readSettingsFile(file).matchAll(/\$\{([^${}?]+)\??\}/g)].map(([, name = '']) => name);
}

const runnerNames = new Set<string>(Object.keys(packageKinds));

/** Whether a command is npx, uvx or bunx. */
export function isPackageRunner(command: string): boolean {
  return runnerNames.has(basename(command));
}

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
function prepareNpx(
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
