import { realpathSync, writeFileSync } from 'node:fs';
import { basename, join, relative, sep } from 'node:path';
import { AmbitError } from '../../errors.ts';
import type { ProcessLaunch } from '../runner.ts';
import type { PackageCommand, PackageTool } from './package-command.ts';
import type { PackageSources } from './package-sources.ts';
import { maxManifestBytes, readFileStart, readPackageFile } from './read-package-file.ts';

export const npmManifestFile = 'package.json';
const maxLineBytes = 256;

/** Reads the first line of a script, which says how the system starts it; empty for any other file. */
function readScriptLine(file: string): string {
  const [line = ''] = readFileStart(file, maxLineBytes).toString('latin1').split('\n');
  return line.startsWith('#!') ? line : '';
}

/** In a workspace Bun would run what `bunfig.toml` preloads, and read `.env`. A session may have written both. */
const bunFlags = ['--config=/dev/null', '--env-file=/dev/null'];

export interface FetchedPin {
  readonly name: string;
  readonly version: string;
  /** The hash of the fetched content. */
  readonly integrity: string;
}

export type StartCommand = Pick<ProcessLaunch, 'command' | 'args'>;

/** Runs the fetching program in its sandbox, where it may write only `folder`; rejects with its output. */
export type RunTool = (args: readonly string[], folder: string) => Promise<void>;

/** Fetches packages of one kind without running anything of theirs. */
export interface PackageKind<Sources extends PackageSources = PackageSources> {
  readonly tool: PackageTool;
  readonly fetcher: string;
  readonly installHint: string;
  /** Files that pin exactly what is fetched, so that it can be fetched again. */
  readonly lockFiles: readonly string[];
  /** The folder of installed programs, in the folder of the package. */
  readonly programFolder: string;
  /** Finds the registries that the user's own tool uses. `fetcher` is the path of the program. */
  findSources(host: FetchHost, wanted: PackageCommand): Sources | Promise<Sources>;
  /** Writes the lock files, and nothing else. */
  resolve(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** Throws when the lock files name anything that does not come from the registries. */
  checkLock(folder: string, sources: Sources): void;
  /** Installs from the lock files, which have been checked. */
  install(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** Throws when the installed files differ from the lock files, or lead out of the folder. */
  checkInstalled(folder: string, sources: Sources): Promise<void>;
  /** Reads the version that was installed. Throws when it is not the package. */
  readPin(wanted: PackageCommand, folder: string): FetchedPin;
  /** Finds the program that is started instead of the command. */
  findStartCommand(wanted: PackageCommand, folder: string): StartCommand;
  /** Whether an installed package can still be started. */
  isIntact?(folder: string): boolean;
  /**
   * Installs for a direct session as the tool itself would, so scripts and builds of the package run. With `locks`
   * the lock files decide what is installed; they lie in the folder already.
   */
  installDirectly(wanted: PackageCommand, places: DirectPlaces, run: RunTool): Promise<void>;
}

/** The folders of an installation for a direct session. */
interface DirectPlaces {
  readonly folder: string;
  /** The folder of the tool's cache. */
  readonly cache: string;
  /** The folder that the lock files were copied from, if the version is pinned. */
  readonly locks: string | undefined;
}

/** The environment outside of the sandbox. */
export interface FetchHost {
  /** The environment without the settings of a project. */
  readonly env: NodeJS.ProcessEnv;
  /** The path of the program that fetches. */
  readonly fetcher: string;
}

/** Writes the manifest of an empty project, which the tools of npm packages add the wanted package to. */
export function writeNpmManifest(folder: string): void {
  writeFileSync(join(folder, npmManifestFile), '{"private":true}\n', { flag: 'wx', mode: 0o600 });
}

/** Finds the program of an npm package: the named one, the only one, or the one with the name of the package. */
export function findNpmProgram(wanted: PackageCommand, folder: string): StartCommand {
  const root = realpathSync.native(folder);
  const home = realpathSync.native(join(root, 'node_modules', wanted.name));
  const manifest = join(relative(root, home), npmManifestFile);
  const { bin } = JSON.parse(readPackageFile(root, manifest, maxManifestBytes)) as { readonly bin?: unknown };
  const own = wanted.name.replace(/^@[^/]*\//, '');
  const programs = new Map<string, unknown>(
    typeof bin === 'string' ? [[own, bin]] : typeof bin === 'object' && bin !== null ? Object.entries(bin) : [],
  );
  // Several names of one program are one program, as for npx.
  const [only] = new Set(programs.values()).size === 1 ? [...programs.keys()] : [];
  const chosen = programs.get(wanted.program ?? only ?? own);
  if (typeof chosen !== 'string') throw programNotFound(wanted, [...programs.keys()]);
  const file = realpathSync.native(join(home, chosen));
  if (!file.startsWith(home + sep)) throw programNotFound(wanted, []);
  const { args } = wanted;
  const line = readScriptLine(file);
  if (wanted.runtime === 'bun' || /[/\s]bun(?:\s|$)/.test(line))
    return { command: 'bun', args: [...bunFlags, file, ...args] };
  return line === '' ? { command: 'node', args: [file, ...args] } : { command: file, args };
}

export function programNotFound({ name, program, tool }: PackageCommand, there: readonly string[]): AmbitError {
  const names = there.slice(0, 10).map((each) => basename(each).replace(/[^\w.-]/g, '?'));
  const which = program === undefined ? 'one program to start' : `a program "${program}"`;
  const flag = tool === 'uvx' ? '--from' : '--package';
  return new AmbitError('UPSTREAM_FAILED', {
    what: `The package "${name}" does not have ${which}${names.length === 0 ? '' : `; it has ${names.join(', ')}`}.`,
    hint: `Write it as ${tool} ${flag} ${name} PROGRAM.`,
  });
}
