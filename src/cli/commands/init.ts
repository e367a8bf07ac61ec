import { lstatSync, realpathSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { stringify } from 'yaml';
import { type Addition, indentLines, renderEntries } from '../../config/edit/edit-servers.ts';
import { loadConfig } from '../../config/load/load.ts';
import { assertOutOfReach } from '../../config/load/out-of-reach.ts';
import { assertNobodyElseWrites } from '../../config/load/read-config-file.ts';
import { filePath, workspaceSlug } from '../../config/schema/schema-parts.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { resolveIfPresent } from '../../lib/fs/if-present.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { previewAdditions } from '../../upstreams/pins/preview-additions.ts';
import { type Command, type Invocation, jsonFlag, readFlag, UsageError } from '../command.ts';
import {
  describeOtherProjects,
  findClientSources,
  findProjectFolders,
  findRepository,
  phraseQuestion,
  planImport,
} from '../import/plan-import.ts';
import { askConfirmation, isTerminal, printLines, yesFlag } from '../io/ask.ts';
import { type ConfigPaths, findConfigPaths } from '../io/config-paths.ts';
import { quotePath, shortenPath } from '../io/find-gateway.ts';
import { printData } from '../io/output.ts';

/** Files in which a project lists servers. */
const projectFiles = ['.mcp.json', '.cursor/mcp.json', '.vscode/mcp.json'];

interface FoundWorkspace {
  readonly slug: string;
  readonly path: string;
  /** The files of the project that list servers. */
  readonly include: readonly string[];
}

export const initCommand: Command = {
  help: 'Write a first configuration from what is on this machine',
  flags: {
    workspace: { type: 'string', value: 'DIR', help: 'Folder to use as workspace; default: the git repository' },
    yes: { ...yesFlag, help: 'Do not ask, and approve the servers that are found' },
    json: jsonFlag,
  },
  async run(invocation) {
    const paths = findConfigPaths(invocation);
    assertNoConfiguration(paths);
    const asks = invocation.flags['yes'] !== true && isTerminal();
    const workspace = await chooseWorkspace(invocation, paths, asks);
    const additions = await findServers(invocation);
    const text = renderConfiguration(additions, workspace);
    const previews = await previewAdditions(additions, { text, paths, searchPath: invocation.env['PATH'] });
    printLines(previews.lines);
    // Without a yes the servers are written down, but none of them may start.
    const question = phraseQuestion(additions.length);
    const isAgreed =
      additions.length > 0 &&
      (invocation.flags['yes'] === true || (asks && (await askConfirmation(invocation, question))));
    const taken = asks && !isAgreed ? [] : additions;
    const written = taken.length === additions.length ? text : renderConfiguration(taken, workspace);
    const { warnings } = await loadConfig({ text: written, file: paths.configFile });
    makeFolders(dirname(paths.configFile));
    writeNewFile(paths.configFile, written);
    const unapproved = isAgreed ? await previews.approve() : [];
    printLines(unapproved.map(({ reason }) => `! ${reason}`));
    const refused = (isAgreed ? unapproved : taken).map(({ name }) => name);
    const names = taken.map(({ name }) => name);
    const include = workspace?.include ?? [];
    const data = {
      configFile: paths.configFile,
      servers: names,
      unapproved: refused,
      include,
      workspace: workspace === undefined ? null : { name: workspace.slug, path: workspace.path },
    };
    printData(invocation, data, () => `Wrote ${escapeControls(paths.configFile)}`);
    printLines(warnings.map((line) => `Warning: ${line}`));
    printLines(describeResult(names, refused, workspace));
    printLines(describeNextStep(invocation, paths, taken, refused, workspace));
  },
};

function assertNoConfiguration({ configFile }: ConfigPaths): void {
  if (lstatSync(configFile, { throwIfNoEntry: false }) !== undefined) throw existsError(configFile);
  assertNobodyElseWrites(configFile);
}

function existsError(configFile: string): AmbitError {
  return new AmbitError('CONFIG_INVALID', {
    what: `There is a configuration already: ${configFile}. It is not changed.`,
    hint: 'Add to it with "ambit server add" or "ambit import", or write another one with --config FILE.',
  });
}

/** Writes a file that did not exist, readable by its owner only. Another program may have made it in the meantime. */
function writeNewFile(file: string, text: string): void {
  try {
    writeFileSync(file, text, { mode: 0o600, flag: 'wx' });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'EEXIST' ? existsError(file) : error;
  }
}

/** Finds the servers of other clients that can be imported. */
async function findServers({ env }: Invocation): Promise<readonly Addition[]> {
  const plan = await planImport(findClientSources(env), {
    existing: new Set(),
    prefixes: ['AMBIT'],
    projects: findProjectFolders(),
  });
  printLines(plan.problems.map((line) => `! ${line}`));
  printLines(describeOtherProjects(plan.otherProjects));
  return plan.additions;
}

/** Finds the workspace: the folder that the person names, else the git repository around the working directory. */
async function chooseWorkspace(
  invocation: Invocation,
  paths: ConfigPaths,
  asks: boolean,
): Promise<FoundWorkspace | undefined> {
  const named = readFlag(invocation, 'workspace');
  if (named === '') throw new UsageError('--workspace takes a path, and this one is empty');
  const folder = named === undefined ? findRepository(process.cwd()) : resolve(named);
  if (folder === undefined) return undefined;
  const path = resolveIfPresent(folder);
  const problem = await findWorkspaceProblem(path, paths, named !== undefined);
  if (problem !== undefined) {
    if (named !== undefined) {
      throw new AmbitError('CONFIG_INVALID', {
        what: `${path} cannot be a workspace: ${problem}.`,
        hint: 'Name another folder with --workspace DIR.',
      });
    }
    printLines([`The repository ${path} is not a workspace: ${problem}.`]);
    return undefined;
  }
  const slug = slugOf(path);
  if (asks && named === undefined && !(await askConfirmation(invocation, `Use ${path} as the workspace "${slug}"?`))) {
    return undefined;
  }
  const include = projectFiles.map((name) => join(path, name)).filter(isPlainFile);
  return { slug, path, include };
}

/** Says why a folder cannot be a workspace. */
async function findWorkspaceProblem(
  path: string,
  { configFile, dataDir }: ConfigPaths,
  isNamed: boolean,
): Promise<string | undefined> {
  const stats = statSync(path, { throwIfNoEntry: false });
  if (stats?.isDirectory() !== true) return 'there is no such folder';
  if (!filePath.safeParse(path).success) return 'its path has control characters or is too long';
  // Anybody can make a repository in a folder such as /tmp.
  if (!isNamed && process.getuid !== undefined && stats.uid !== process.getuid())
    return 'it belongs to another account';
  const text = renderConfiguration([], { slug: 'workspace', path, include: [] });
  const { config } = await loadConfig({ text, file: configFile });
  try {
    assertOutOfReach({ configFile, dataDir, config });
    return undefined;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    return describeReach(path, { configFile, dataDir }, error);
  }
}

function describeReach(path: string, { configFile, dataDir }: ConfigPaths, error: AmbitError): string {
  const lies = (inner: string): boolean => `${resolveIfPresent(inner)}/`.startsWith(`${path}/`);
  if (lies(configFile) || lies(dirname(configFile)))
    return 'it contains the configuration, which an agent could change';
  if (lies(dataDir) || lies(dirname(dataDir))) return 'it contains the data directory, which an agent could change';
  return error.message.split('\n')[0] ?? 'an agent could reach files of Ambit there';
}

/** `My Shop` becomes `my-shop`. */
function slugOf(path: string): string {
  const slug = basename(path)
    .toLowerCase()
    .replace(/[^a-z0-9._-]+/g, '-')
    .replace(/^[^a-z0-9]+/, '')
    .slice(0, 63)
    .replace(/(?<![-.])[-.]+$/, '');
  return workspaceSlug.test(slug) ? slug : 'workspace';
}

/** Whether a file lies there itself. A link could lead out of the project. */
function isPlainFile(file: string): boolean {
  try {
    return realpathSync.native(file) === file && statSync(file).isFile();
  } catch {
    return false;
  }
}

function renderConfiguration(servers: readonly Addition[], workspace: FoundWorkspace | undefined): string {
  const entries = indentLines(renderEntries(servers), 2).trimEnd().split('\n');
  const include = workspace?.include ?? [];
  return [
    '# The configuration of Ambit. All keys:',
    '# https://github.com/ambit-mcp/ambit/blob/main/docs/reference/configuration.md',
    '# A running gateway reads this file again when it changes.',
    'version: 1',
    '',
    '# The MCP servers. To add one: ambit server add NAME -- COMMAND',
    ...(servers.length === 0
      ? []
      : ['# Servers marked "imported" start only after you approve them: ambit server approve NAME']),
    ...(servers.length === 0 ? ['servers: {}'] : ['servers:', ...entries]),
    '',
    ...(include.length === 0
      ? []
      : [
          '# Project files that list more servers.',
          '# They start only after you approve them: ambit server approve NAME',
          ...renderBlock('include', include),
          '',
        ]),
    '# The folders that sessions work in. "trust" is the highest that a session can get:',
    '# "direct" runs the servers as you, "sandboxed" runs them in a sandbox.',
    ...renderBlock(
      'workspaces',
      workspace === undefined ? {} : { [workspace.slug]: { path: workspace.path, trust: 'direct' } },
    ),
    '',
    '# Sessions are sandboxed by default. They end after an hour without use.',
    'sessions:',
    '  defaultTrust: sandboxed',
    '  ttlSeconds: 3600',
    '',
    '# The address of the gateway. Only programs on this machine can reach it.',
    'listen:',
    '  host: 127.0.0.1',
    '  port: 7420',
    '',
  ].join('\n');
}

function renderBlock(key: string, value: object): string[] {
  return stringify({ [key]: value }, { lineWidth: 0 })
    .trimEnd()
    .split('\n');
}

function describeResult(
  names: readonly string[],
  unapproved: readonly string[],
  workspace: FoundWorkspace | undefined,
): string[] {
  const approved = names.length - unapproved.length;
  return [
    `  servers    ${names.length === 0 ? 'none' : `${names.join(', ')} (${approved} approved)`}`,
    `  workspace  ${workspace === undefined ? 'none' : `${workspace.slug} (${shortenPath(workspace.path)})`}`,
    ...(workspace?.include ?? []).map((file) => `  included   ${shortenPath(file)} (its servers are not approved)`),
  ];
}

function describeNextStep(
  invocation: Invocation,
  { configFile }: ConfigPaths,
  servers: readonly Addition[],
  unapproved: readonly string[],
  workspace: FoundWorkspace | undefined,
): string[] {
  const flag = readFlag(invocation, 'config') === undefined ? '' : ` --config ${quotePath(configFile)}`;
  const [first, ...others] = unapproved;
  if (first !== undefined) {
    return [
      `Next: ambit server approve ${first}${flag}`,
      ...(others.length === 0 ? [] : [`Do the same for: ${others.join(', ')}`]),
    ];
  }
  const [server] = servers;
  if (server !== undefined) {
    return [
      `Next: ambit client ${server.origin}${workspace === undefined ? '' : ` --workspace ${workspace.slug}`}${flag}`,
      'It prints the configuration that connects the client; --write writes it.',
    ];
  }
  if (workspace !== undefined && workspace.include.length > 0) return [`Next: ambit server list${flag}`];
  return [`Next: ambit server add NAME${flag} -- COMMAND, or ambit server search WORDS`];
}
