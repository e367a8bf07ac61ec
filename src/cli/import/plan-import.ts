import { existsSync, readFileSync, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import type { Addition } from '../../config/edit/edit-servers.ts';
import { resolveArgs, resolveCommand } from '../../config/load/configured-paths.ts';
import { type ForeignServer, readMcpServers } from '../../config/load/mcp-servers-file.ts';
import { readConfigFile } from '../../config/load/read-config-file.ts';
import { isMap } from '../../config/schema/schema-parts.ts';
import { isAmbitError } from '../../errors.ts';
import { resolveIfPresent } from '../../lib/fs/if-present.ts';
import { findUserFolders, mcpClients, type Variables } from '../client/clients.ts';

const imported = mcpClients.filter(({ isImported }) => isImported);
export const clients: readonly string[] = imported.map(({ name }) => name);

interface ClientFile {
  readonly client: string;
  readonly file: string;
}

export interface ImportSource {
  readonly file: string;
  /** The origin that is recorded: the client, or the file itself. */
  readonly origin: string;
}

export interface ImportPlan {
  readonly additions: readonly Addition[];
  /** Servers whose names the configuration has already. */
  readonly kept: readonly { readonly name: string; readonly origin: string }[];
  /** The servers that cannot be imported, a line each, without values. */
  readonly problems: readonly string[];
  /** Folders of projects for which Claude Code has servers that are not taken over here. */
  readonly otherProjects: readonly string[];
}

interface PlanOptions {
  /** Names that the configuration has. */
  readonly existing: ReadonlySet<string>;
  readonly prefixes: readonly string[];
  /** The folders whose servers are taken over where a file keeps servers for single projects. */
  readonly projects: readonly string[];
}

/** Reads the files and plans which servers to add. Writes nothing. */
export async function planImport(
  found: readonly ImportSource[],
  { existing, prefixes, projects }: PlanOptions,
): Promise<ImportPlan> {
  const additions = new Map<string, Addition>();
  const kept: { name: string; origin: string }[] = [];
  const problems: string[] = [];
  const otherProjects: string[] = [];
  for (const { file, origin } of found) {
    const text = await readConfigFile(file, maxClientFileBytes).catch((error: unknown) => error);
    if (typeof text !== 'string') {
      if (!isAmbitError(text)) throw text;
      problems.push(text.message);
      continue;
    }
    const split = splitProjects(file, text, projects);
    otherProjects.push(...split.others);
    for (const part of split.parts) {
      const read = readMcpServers(part, prefixes);
      problems.push(...read.problems.map((line) => `${file}: ${line}`));
      for (const server of read.servers) {
        const taken = existing.has(server.name) || additions.has(server.name);
        if (taken) kept.push({ name: server.name, origin });
        else additions.set(server.name, { name: server.name, origin, entry: serverEntryOf(server, file, origin) });
      }
    }
  }
  return { additions: [...additions.values()], kept, problems, otherProjects };
}

/** Claude Code keeps much else in the file with its servers. */
const maxClientFileBytes = 32 * 1024 * 1024;

interface SplitFile {
  /** Texts of `mcpServers` files: those of the wanted projects first, because Claude Code prefers them. */
  readonly parts: readonly string[];
  /** The folders of the other projects that have servers. */
  readonly others: readonly string[];
}

/** Splits the file of Claude Code, which has servers for all projects and servers for single ones. */
function splitProjects(file: string, text: string, wanted: readonly string[]): SplitFile {
  const whole = { parts: [text], others: [] };
  if (basename(file) !== '.claude.json') return whole;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return whole;
  }
  const projects = isMap(value) && isMap(value['projects']) ? Object.entries(value['projects']) : [];
  const withServers = projects.flatMap(([folder, project]) => {
    const servers = isMap(project) ? project['mcpServers'] : undefined;
    return isMap(servers) && Object.keys(servers).length > 0 ? [{ folder, servers }] : [];
  });
  const isWanted = (folder: string): boolean => wanted.some((each) => each === resolveIfPresent(folder));
  const own = withServers.filter(({ folder }) => isWanted(folder));
  const top = isMap(value) && value['mcpServers'] !== undefined ? [{ servers: value['mcpServers'] }] : [];
  return {
    parts: [...own, ...top].map(({ servers }) => JSON.stringify({ mcpServers: servers })),
    others: withServers.filter((each) => !own.includes(each)).map(({ folder }) => folder),
  };
}

/** Says how to take over servers that Claude Code keeps for other projects. */
export function describeOtherProjects(folders: readonly string[]): string[] {
  if (folders.length === 0) return [];
  const shown = folders.slice(0, maxShownProjects);
  const more = folders.length - shown.length;
  return [
    'Claude Code has servers for single projects:',
    ...shown.map((folder) => `  ${folder}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    'To take them over, run "ambit import" in the folder of the project.',
  ];
}

const maxShownProjects = 5;

/** The question that the person answers before servers are imported. */
export function phraseQuestion(count: number): string {
  return count === 1
    ? 'Import this server, and approve it as shown?'
    : `Import these ${count} servers, and approve them as shown?`;
}

/** Resolves relative paths against the folder of the file they came from. */
function serverEntryOf({ written, server }: ForeignServer, file: string, origin: string): Record<string, unknown> {
  const folder = dirname(resolve(file));
  const where =
    server.transport === 'stdio'
      ? {
          command: resolveCommand(server.command, folder),
          ...(server.args.length === 0 ? {} : { args: resolveArgs(server, folder) }),
        }
      : {};
  return { ...written, ...where, imported: origin };
}

/** The folder that a command runs in, and the git repository around it. */
export function findProjectFolders(): string[] {
  const here = process.cwd();
  const repository = findRepository(here);
  return [...new Set([here, ...(repository === undefined ? [] : [repository])])];
}

/**
 * Finds the git repository around a folder. It looks for `.git` and never starts git, whose settings in a repository can
 * name programs to run. A worktree and a submodule have a file of that name.
 */
export function findRepository(from: string): string | undefined {
  for (let folder = from; ; folder = dirname(folder)) {
    if (isRepository(join(folder, '.git'))) return folder;
    if (dirname(folder) === folder) return undefined;
  }
}

function isRepository(path: string): boolean {
  try {
    const stats = statSync(path);
    if (stats.isDirectory()) return existsSync(join(path, 'HEAD'));
    return stats.isFile() && stats.size <= maxGitFileBytes && readFileSync(path, 'utf8').startsWith('gitdir: ');
  } catch {
    return false;
  }
}

const maxGitFileBytes = 8192;

/** The existing files in which clients keep the servers of a user. */
export function findClientSources(env: Variables): ImportSource[] {
  return findClientFiles(env)
    .filter(({ file }) => existsSync(file))
    .map(({ client, file }) => ({ file, origin: client }));
}

/** The files in which these clients keep the servers of a user, whether or not they exist. */
export function findClientFiles(env: Variables, platform: NodeJS.Platform = process.platform): ClientFile[] {
  const folders = findUserFolders(env, platform);
  return imported.flatMap(({ name, files, olderFile }) =>
    [...files(folders), ...(olderFile === undefined ? [] : [olderFile(folders)])].map((file) => ({
      client: name,
      file,
    })),
  );
}
