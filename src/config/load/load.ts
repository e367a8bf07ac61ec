import { homedir } from 'node:os';
import { basename, dirname, resolve } from 'node:path';
import { AmbitError } from '../../errors.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { explainIssues } from '../explain/explain-issues.ts';
import { type ConfigProblem, configInvalidError, showPath } from '../explain/problem.ts';
import {
  findImportedProblems,
  findMisplacedPatterns,
  findNotBuilt,
  findOverrideProblems,
  findRuleProblems,
  findUnknownServers,
  findUnknownWorkspaces,
} from '../schema/find-problems.ts';
import { findListenProblems, readListenChoice } from '../schema/listen-rules.ts';
import { type Config, configSchema, type DeepReadonly } from '../schema/schema.ts';
import { isMap } from '../schema/schema-parts.ts';
import { resolvePaths } from './configured-paths.ts';
import { hideIncludedFiles, includeServers } from './include-servers.ts';
import { noteWritableFolders } from './out-of-reach.ts';
import { decodeConfigText, readOwnConfigFile } from './read-config-file.ts';
import { readYaml } from './read-yaml.ts';

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
