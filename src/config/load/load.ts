import { homedir } from 'node:os';
import { basename, dirname, relative, resolve, sep } from 'node:path';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { type ConfigProblem, configInvalidError, showPath } from '../explain/problem.ts';
import {
  explainIssues,
  findImportedProblems,
  findMisplacedPatterns,
  findNotBuilt,
  findOverrideProblems,
  findPatternProblems,
  findRuleProblems,
  findUnknownServers,
  findUnknownWorkspaces,
} from '../schema/find-problems.ts';
import { findListenProblems, readListenChoice } from '../schema/listen-rules.ts';
import { type Config, type ConfigDraft, configSchema, type DeepReadonly } from '../schema/schema.ts';
import { isMap } from '../schema/schema-parts.ts';
import { findConfiguredFiles, resolvePaths } from './configured-paths.ts';
import { readMcpServers } from './mcp-servers-file.ts';
import { noteWritableFolders } from './out-of-reach.ts';
import { decodeConfigText, readConfigFile, readOwnConfigFile } from './read-config-file.ts';
import { readYaml } from './read-yaml.ts';
import { isInside, resolveSymlinks } from './resolve-symlinks.ts';

type ServerDrafts = ConfigDraft['servers'];

interface IncludedServers {
  readonly servers: ServerDrafts;
  readonly warnings: string[];
}

const escapeGlob = (path: string): string => path.replace(/[\\*?[\]{}!,]/g, '\\$&');

type ConfigSource = { readonly file: string } | { readonly text: string; readonly file: string };

export interface LoadedConfig {
  readonly config: Config;
  /** One line for each key that has no effect yet or names nothing, and for problems of included files. */
  readonly warnings: string[];
}

/** Reads, checks and completes a configuration. Throws CONFIG_INVALID with all problems, a line each. */
export async function loadConfig(source: ConfigSource): Promise<LoadedConfig> {
  const text =
    'text' in source ? decodeConfigText(Buffer.from(source.text), source.file) : await readOwnConfigFile(source.file);
  const file = escapeControls(basename(source.file));
  const yaml = readYaml(text);
  if (yaml.broken) throw configInvalidError(file, yaml.problems, yaml.locate);

  // An empty file is a map in which everything is missing.
  const value = yaml.value ?? {};
  if (isClientFile(value)) throw clientFileError(source.file);
  const parsed = configSchema.safeParse(value);
  const notBuilt = findNotBuilt(value);
  const problems: ConfigProblem[] = [
    ...yaml.problems,
    ...(parsed.success ? [] : explainIssues(parsed.error.issues, value)),
    ...notBuilt.filter(({ refused }) => refused),
    ...findListenProblems(readListenChoice(value)),
    ...(parsed.success ? findImportedProblems(parsed.data) : []),
    ...(parsed.success ? findOverrideProblems(parsed.data) : []),
    ...(parsed.success ? findPatternProblems(parsed.data) : []),
    ...(parsed.success ? await findRuleProblems(parsed.data) : []),
  ];
  if (!parsed.success || problems.length > 0) throw configInvalidError(file, problems, yaml.locate);

  const folder = dirname(resolve(source.file));
  const own = hideIncludedFiles(resolvePaths(parsed.data, folder, homedir()));
  const included = await includeServers(own, folder);
  const config = { ...own, servers: { ...own.servers, ...included.servers } };
  const warnings = [
    ...notBuilt,
    ...findUnknownServers(config),
    ...findUnknownWorkspaces(config),
    ...findMisplacedPatterns(config),
  ]
    .map((problem) => ({ problem, line: yaml.locate(problem).line }))
    .sort((a, b) => a.line - b.line)
    .map(({ problem, line }) => `${file}:${line} ${showPath(problem.path)}: ${problem.message}`);
  const frozen = copyFrozen<Config>(config);
  noteWritableFolders(frozen);
  return { config: frozen, warnings: [...warnings, ...included.warnings] };
}

/** Whether this is the file of another MCP client, such as Claude, Cursor or VS Code. */
function isClientFile(value: unknown): boolean {
  if (!isMap(value) || Object.hasOwn(value, 'version')) return false;
  if (isMap(value['mcpServers']) || (isMap(value['mcp']) && isMap(value['mcp']['servers']))) return true;
  const { servers } = value;
  if (!isMap(servers)) return false;
  return (
    Array.isArray(value['inputs']) || Object.values(servers).some((each) => isMap(each) && Object.hasOwn(each, 'type'))
  );
}

function clientFileError(path: string): AmbitError {
  const file = escapeControls(path);
  return new AmbitError('CONFIG_INVALID', {
    what: `${file} is the server list of another MCP client, not an Ambit configuration.`,
    hint: `Import its servers with "ambit import ${file}", or include it in a configuration: "version: 1" and "include: [${file}]".`,
  });
}

/** Copies and freezes deeply. Maps get no prototype, so that a foreign key such as `constructor` finds nothing. */
export function copyFrozen<T>(value: T): DeepReadonly<T> {
  if (Array.isArray(value)) return Object.freeze(value.map(copyFrozen)) as DeepReadonly<T>;
  if (typeof value !== 'object' || value === null) return value as DeepReadonly<T>;
  const copy: Record<string, unknown> = Object.create(null);
  for (const [key, inner] of Object.entries(value)) copy[key] = copyFrozen(inner);
  return Object.freeze(copy) as DeepReadonly<T>;
}

/** Reads the servers of included files. They belong to projects: a mistake costs their servers, never the start. */
async function includeServers(config: ConfigDraft, folder: string): Promise<IncludedServers> {
  const servers: ServerDrafts = {};
  const warnings: string[] = [];
  const from = new Map<string, string>();
  for (const file of config.include) {
    const shownFile = escapeControls(relative(folder, file) || file);
    const warn = (line: string): void => void warnings.push(`${shownFile}: ${line}`);
    const text = await readConfigFile(file).catch((error: unknown) => error);
    if (typeof text !== 'string') {
      if (!isAmbitError(text)) throw text;
      warn(`${text.message.slice(text.message.lastIndexOf(': ') + 2)}; its servers are not loaded`);
      continue;
    }
    const read = readMcpServers(text, config.context.envPrefixes);
    for (const problem of read.problems) warn(problem);
    for (const { name, server } of read.servers) {
      if (Object.hasOwn(config.servers, name)) {
        warn(`${name}: the configuration already has a server with this name, which is used instead`);
      } else if (from.has(name)) {
        warn(`${name}: ${from.get(name)} already has a server with this name, which is used instead`);
      } else {
        from.set(name, shownFile);
        servers[name] = { ...server, source: 'project', file };
      }
    }
  }
  return { servers, warnings };
}

/**
 * Hides included files from the file tools of the workspaces that contain them, because they may contain secrets of
 * servers. A file at the top of a workspace is hidden by its name in every folder.
 */
function hideIncludedFiles(config: ConfigDraft): ConfigDraft {
  const includedPaths = findConfiguredFiles(config, 'included').flatMap(({ path }) => tryResolve(path));
  type Workspace = ConfigDraft['workspaces'][string];
  const hideIn = (workspace: Workspace, path: string | undefined, depth: number): Workspace => {
    const folder = path === undefined ? undefined : tryResolve(path).at(-1);
    if (folder === undefined) return workspace;
    const inside = includedPaths
      .filter((includedPath) => isInside(includedPath, folder))
      .map((includedPath) => relative(folder, includedPath).split(sep).slice(depth).join('/'))
      .filter((name) => name !== '');
    const hide = [...workspace.files.hide, ...inside.map(escapeGlob)];
    return { ...workspace, files: { ...workspace.files, hide: [...new Set(hide)] } };
  };
  const workspaces = Object.entries(config.workspaces).map(
    ([slug, workspace]) => [slug, hideIn(workspace, workspace.path, 0)] as const,
  );
  // In the folders of a pattern, the file is hidden in each of them.
  const patterns = Object.entries(config.workspacePatterns).map(
    ([name, settings]) => [name, hideIn(settings, settings.path && dirname(settings.path), 1)] as const,
  );
  return { ...config, workspaces: Object.fromEntries(workspaces), workspacePatterns: Object.fromEntries(patterns) };
}

/** Resolves the links of a path; empty when that fails, since then nobody can read it. */
function tryResolve(path: string): string[] {
  try {
    return resolveSymlinks(path);
  } catch {
    return [];
  }
}
