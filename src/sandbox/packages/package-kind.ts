import type { PackageCommand, PackageTool } from './package-command.ts';
import type { PackageSources } from './package-sources.ts';

export interface PackagePin {
  readonly name: string;
  readonly version: string;
  /** Over what was fetched. */
  readonly integrity: string;
}

export interface Started {
  readonly command: string;
  readonly args: readonly string[];
}

/** Runs the program that fetches in its sandbox, where `folder` is all it may write; rejects with what it said. */
export type RunTool = (args: readonly string[], folder: string) => Promise<void>;

/** How packages of one kind are fetched without running anything of theirs. */
export interface PackageKind<Sources extends PackageSources = PackageSources> {
  readonly tool: PackageTool;
  /** The program that fetches. */
  readonly fetcher: string;
  readonly missing: string;
  /** Files that say exactly what is fetched, so that it can be fetched again. */
  readonly lockFiles: readonly string[];
  /** Where the user's own tool takes packages from. `fetcher` is the path of the program. */
  findSources(host: HostSide, wanted: PackageCommand): Sources | Promise<Sources>;
  /** Writes the lock files, and nothing else. */
  resolve(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** Throws when the lock files name anything that does not come from the registries. */
  checkLock(folder: string, sources: Sources): void;
  /** From the lock files, which have been checked. */
  install(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** Throws when something else is there after that than the lock files say, or something leads out of the folder. */
  checkInstalled(folder: string, sources: Sources): Promise<void>;
  /** What is there after that. Throws when it is not the package. */
  pinned(wanted: PackageCommand, folder: string): PackagePin;
  /** What is started in place of the command. */
  program(wanted: PackageCommand, folder: string): Started;
}

/** What is known outside of the sandbox. */
export interface HostSide {
  /** Without what a project has set. */
  readonly env: NodeJS.ProcessEnv;
  /** The path of the program that fetches. */
  readonly fetcher: string;
}
