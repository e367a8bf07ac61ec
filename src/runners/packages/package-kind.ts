import type { PackageCommand, PackageTool } from './package-command.ts';

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

/** Runs a program of the tool outside, with nothing of a server in it; rejects with what it said. */
export type RunTool = (args: readonly string[], folder: string) => Promise<void>;

/** How packages of one kind are fetched without running anything of theirs. */
export interface PackageKind {
  readonly tool: PackageTool;
  /** The program that fetches. */
  readonly fetcher: string;
  readonly missing: string;
  /** Files that say exactly what was fetched, so that it can be fetched again. */
  readonly lockFiles: readonly string[];
  fetch(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** From the lock files, which are there. */
  restore(wanted: PackageCommand, folder: string, run: RunTool): Promise<void>;
  /** What is there after either. Throws when it is not the package. */
  pinned(wanted: PackageCommand, folder: string): PackagePin;
  /** What is started in place of the command. */
  program(wanted: PackageCommand, folder: string): Started;
}
