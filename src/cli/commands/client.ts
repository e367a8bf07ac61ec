import { existsSync, lstatSync, realpathSync, rmSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, sep } from 'node:path';
import { findLatestBackup, replaceAndDropBackup, replaceWithBackup } from '../../config/edit/backups.ts';
import { suggestClosest } from '../../config/explain/suggest.ts';
import { loadConfig } from '../../config/load/load.ts';
import { findRewriters } from '../../config/load/out-of-reach.ts';
import { findWorkspace, listWorkspaces } from '../../config/load/workspace-folders.ts';
import { isMap } from '../../config/schema/schema-parts.ts';
import { AmbitError, isAmbitError } from '../../errors.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { findExposure } from '../../lib/fs/private-files.ts';
import { escapeControls } from '../../lib/text/escape-controls.ts';
import { formatUnifiedDiff } from '../../lib/text/line-diff.ts';
import {
  addEntry,
  type ClientEntry,
  type ClientTarget,
  chooseUserFile,
  describeOtherServers,
  entryName,
  findProgram,
  findUserFolders,
  listShownStrings,
  type McpClient,
  mcpClients,
  type Program,
  readClientFile,
  tokenVariable,
  usesInput,
} from '../client/clients.ts';
import { removeListItem } from '../client/json-format.ts';
import { type Command, type Invocation, jsonFlag, readFlag, trustFlag, UsageError } from '../command.ts';
import { askConfirmation, printLines, yesFlag } from '../io/ask.ts';
import { findConfigPaths } from '../io/config-paths.ts';
import { escapeForeignText, printData, renderTable } from '../io/output.ts';

export const clientCommand: Command = {
  operands: '[NAME]',
  operandChoices: mcpClients.map(({ name }) => name),
  help: 'Connect an MCP client to Ambit',
  flags: {
    workspace: { type: 'string', value: 'NAME', help: 'Workspace of its sessions' },
    trust: trustFlag,
    url: { type: 'string', value: 'URL', help: 'Connect to a running gateway over HTTP' },
    project: { type: 'boolean', help: 'Use the project file in this folder' },
    write: { type: 'boolean', help: 'Write the configuration into the file of the client' },
    undo: { type: 'boolean', help: 'Take back what --write changed' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const { flags, positionals } = invocation;
    const [name, ...more] = positionals;
    if (more.length > 0) throw new UsageError('only one NAME is expected');
    if (flags['write'] === true && flags['undo'] === true) throw new UsageError('use either --write or --undo');
    if (name === undefined) {
      const needing = ['write', 'undo', 'url', 'workspace', 'trust'].find((flag) => flags[flag] !== undefined);
      if (needing !== undefined) throw new UsageError(`NAME is missing: --${needing} is for one client`);
      return listClients(invocation);
    }
    const client = mcpClients.find((each) => each.name === name);
    if (client === undefined) throw new UsageError(`unknown client "${name}"`);
    const target = findTarget(invocation, client);
    if (flags['undo'] === true) return undoClient(invocation, target);
    const entry = await describeEntry(invocation, target);
    return flags['write'] === true ? writeClient(invocation, target, entry) : printClient(invocation, target, entry);
  },
};

function findTarget({ env, flags }: Invocation, client: McpClient): ClientTarget {
  const path = [...client.path, entryName];
  if (flags['project'] !== true) {
    return { client, file: chooseUserFile(client, findUserFolders(env)), isProject: false, path };
  }
  if (client.projectFile === undefined) {
    throw new UsageError(`${client.title} has no file for single projects`, 'Leave out --project.');
  }
  return { client, file: join(process.cwd(), client.projectFile), isProject: true, path };
}

function listClients(invocation: Invocation): number {
  const isProject = invocation.flags['project'] === true;
  const targets = mcpClients
    .filter(({ projectFile }) => !isProject || projectFile !== undefined)
    .map((client) => findTarget(invocation, client));
  const clients = targets.map((target) => {
    const { client, file } = target;
    return { name: client.name, title: client.title, file, exists: existsSync(file), setUp: readSetUp(target) };
  });
  const home = `${findUserFolders(invocation.env).home}${sep}`;
  printData(invocation, { clients }, () =>
    renderTable(
      ['CLIENT', 'FILE', 'SET UP'],
      clients.map(({ name, file, setUp }) => [
        name,
        file.startsWith(home) ? `~${sep}${file.slice(home.length)}` : file,
        setUp === null ? '-' : setUp ? 'yes' : 'no',
      ]),
      { keepWidth: ['CLIENT', 'SET UP'], truncateStart: ['FILE'] },
    ),
  );
  printLines(['Show the configuration for one with "ambit client NAME"; --write writes it.']);
  return 0;
}

/** Whether the file has an entry for Ambit; null if there is no file, or none that can be read. */
function readSetUp({ client, file, path }: ClientTarget): boolean | null {
  try {
    const text = readClientFile(file);
    return text === undefined ? null : client.format.readEntry(text, path) !== undefined;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    printLines([`! ${file}: ${error.message}`]);
    return null;
  }
}

async function describeEntry(invocation: Invocation, target: ClientTarget): Promise<ClientEntry> {
  const { client } = target;
  const url = readFlag(invocation, 'url');
  if (url === undefined) {
    const { command, args } = await describeStdio(invocation, target);
    return client.describeCommand(command, args);
  }
  for (const flag of ['workspace', 'trust']) {
    if (invocation.flags[flag] === undefined) continue;
    throw new UsageError(`--${flag} is for "ambit stdio"; over HTTP the session of the token decides`);
  }
  if (typeof client.describeUrl === 'string') {
    throw new AmbitError('CONFIG_INVALID', {
      what: `${client.title} cannot be connected by URL.`,
      hint: client.describeUrl,
    });
  }
  return client.describeUrl(checkUrl(url));
}

/** Checks the URL of a gateway. It may hold no secret, since it is written to a file. */
function checkUrl(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !/^https?:$/.test(url.protocol)) {
    throw new UsageError('--url takes a URL such as http://127.0.0.1:7420/mcp');
  }
  if (url.username !== '' || url.password !== '' || /amb[sk]_/.test(text)) {
    throw new UsageError(
      '--url may not contain a credential: it would be written to the file',
      `Put the token into the environment variable ${tokenVariable} of the client.`,
    );
  }
  if (url.pathname === '/') url.pathname = '/mcp';
  if (url.protocol === 'http:' && !/^(?:localhost|127\..*|\[::1\])$/.test(url.hostname)) {
    printLines([`! ${url.host} is reached without TLS: others on the network can read the token.`]);
  }
  return url.href;
}

/** The command with which the client starts Ambit. All paths are absolute: clients start it in folders of their own. */
async function describeStdio(invocation: Invocation, { file, isProject }: ClientTarget): Promise<Program> {
  const { configFile, dataDir } = findConfigPaths(invocation);
  const workspace = readFlag(invocation, 'workspace');
  const trust = readFlag(invocation, 'trust');
  const { command, args } = findProgram(invocation.env);
  if (!existsSync(configFile)) {
    printLines([
      `! There is no configuration at ${configFile} yet. Create one with "ambit init" before you start the client.`,
    ]);
  } else {
    const { config } = await loadConfig({ file: configFile });
    const { names } = listWorkspaces(config);
    if (workspace !== undefined && findWorkspace(config, workspace) === undefined) {
      throw new AmbitError('WORKSPACE_NOT_FOUND', {
        what: `There is no workspace "${workspace}" in ${configFile}${suggestClosest(workspace, names) || '.'}`,
        hint: 'List them with "ambit workspace list".',
      });
    }
    if (workspace === undefined && names.length > 0) {
      const some = names.slice(0, 10).join(', ');
      printLines([`! Without --workspace, the servers get no project folder. Workspaces: ${some}`]);
    }
    for (const path of [...(isProject ? [] : [file]), ...[command, ...args].filter(isAbsolute)]) {
      for (const rewriter of findRewriters(config, path)) {
        printLines([`! ${path} is in ${rewriter}: an agent could change what the client starts.`]);
      }
    }
  }
  const hasDataDir = readFlag(invocation, 'data-dir') !== undefined || Boolean(invocation.env['AMBIT_DATA_DIR']);
  return {
    command,
    args: [
      ...args,
      'stdio',
      ...['--config', configFile],
      ...(hasDataDir ? ['--data-dir', dataDir] : []),
      ...(workspace === undefined ? [] : ['--workspace', workspace]),
      ...(trust === undefined ? [] : ['--trust', trust]),
    ],
  };
}

function printClient(invocation: Invocation, target: ClientTarget, entry: ClientEntry): number {
  const { client, file, isProject } = target;
  const snippet = addEntry(target, '', entry);
  printData(invocation, { client: client.name, file, setUp: readSetUp(target), entry, snippet }, () =>
    snippet.trimEnd(),
  );
  printLines([
    `This belongs in ${file}. To write it there, add --write to the command.`,
    ...describeSecrets(target, entry),
    ...(isProject ? [projectNote] : []),
    client.restart,
  ]);
  return 0;
}

const projectNote =
  'Agents that work in this folder can change this file, and it has paths of this machine: do not commit it.';

function describeSecrets({ client }: ClientTarget, entry: ClientEntry): string[] {
  if (usesInput(client, entry)) return [`${client.title} asks for the session token or key, and keeps it encrypted.`];
  if (!JSON.stringify(entry).includes(tokenVariable)) return [];
  return [`Set ${tokenVariable} to a session token or key in the environment that ${client.title} is started from.`];
}

async function writeClient(invocation: Invocation, target: ClientTarget, entry: ClientEntry): Promise<number> {
  const { client, file, isProject } = target;
  assertSafeToWrite(target);
  const { before, after } = planWrite(target, entry);
  const data = { client: client.name, file };
  if (before === after) {
    printData(
      invocation,
      { ...data, changed: false, backup: null },
      () => `${escapeControls(file)} is set up already.`,
    );
    printLines(describeOtherServers(target, after));
    return 0;
  }
  printDiff(target, before ?? '', after, entry);
  if (isProject) printLines([projectNote]);
  if (!(await askConfirmation(invocation, `Write this to ${file}?`))) {
    printLines(['Nothing was written.']);
    return 1;
  }
  assertSafeToWrite(target);
  assertUnchanged(file, before);
  makeFolders(dirname(file));
  const { backup } = replaceWithBackup(file, after, false);
  printData(invocation, { ...data, changed: true, backup: backup ?? null }, () => `Wrote ${escapeControls(file)}.`);
  printLines([
    ...(backup === undefined ? [] : [`Backup: ${backup}`]),
    `Undo with: ambit client ${client.name}${isProject ? ' --project' : ''} --undo`,
    ...describeSecrets(target, entry),
    ...describeOtherServers(target, after),
    client.restart,
  ]);
  return 0;
}

/** Computes the new text. Where the file cannot be edited, the snippet is printed to be added by hand. */
function planWrite(target: ClientTarget, entry: ClientEntry): { before: string | undefined; after: string } {
  try {
    const before = readClientFile(target.file);
    return { before, after: addEntry(target, before ?? '', entry) };
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    process.stdout.write(escapeForeignText(addEntry(target, '', entry)));
    throw new AmbitError('CONFIG_INVALID', {
      what: `${target.file} cannot be edited: ${error.message}.`,
      hint: 'Nothing was written. Add the entry above by hand.',
      cause: error,
    });
  }
}

/** Refuses links that lead elsewhere than the user expects. Links of the user's own to the user's own files are followed. */
function assertSafeToWrite({ file, isProject }: ClientTarget): void {
  const refuse = (what: string, hint: string): never => {
    throw new AmbitError('CONFIG_INVALID', { what, hint });
  };
  const isLink = lstatSync(file, { throwIfNoEntry: false })?.isSymbolicLink() === true;
  if (isLink && !existsSync(file)) {
    refuse(`${file} is a link to a file that does not exist.`, 'Remove the link, or create the file it leads to.');
  }
  if (isProject) {
    const project = realpathSync(process.cwd());
    const real = findRealPath(file);
    if (relative(project, real).split(sep)[0] === '..' || isAbsolute(relative(project, real))) {
      refuse(`${file} leads out of the project, to ${real}.`, 'Remove the link, or edit that file by hand.');
    }
    return;
  }
  const exposed = findExposure(file);
  if (exposed !== undefined) {
    refuse(
      `${file} could be changed by another user: ${exposed}.`,
      'Take it over with "chown" and "chmod go-w", the folders above it too, and try again.',
    );
  }
}

/** The real path of a file; of one that does not exist yet, below the nearest folder that does. */
function findRealPath(file: string): string {
  if (existsSync(file)) return realpathSync(file);
  return join(findRealPath(dirname(file)), file.slice(dirname(file).length));
}

/** The client itself may write its file while the person is asked. */
function assertUnchanged(file: string, before: string | undefined): void {
  if (readClientFile(file) === before) return;
  throw new AmbitError('CONFIG_INVALID', {
    what: `${file} has been changed in the meantime, so nothing was written.`,
    hint: 'End the client and try again.',
  });
}

/** Prints the difference without values that may be secrets of other servers. */
function printDiff({ client, file, path }: ClientTarget, before: string, after: string, ...entries: unknown[]): void {
  const shown = new Set([...entries, client.format.readEntry(before, path), client.input].flatMap(listShownStrings));
  const [old, fresh] = [before, after].map((text) => client.format.maskText(text, shown)) as [string, string];
  const { text } = formatUnifiedDiff(old, fresh);
  printLines([
    `--- ${file}`,
    `+++ ${file}`,
    ...text
      .trimEnd()
      .split('\n')
      .map((line) => line.replace(/\r$/, '')),
  ]);
}

/**
 * Takes back what `--write` changed. A file that is otherwise as it was written gets its old content, or is removed if
 * there was none. In a file that has changed since, only the entry is put back.
 */
async function undoClient(invocation: Invocation, target: ClientTarget): Promise<number> {
  const { client, file } = target;
  assertSafeToWrite(target);
  const { text, next, backup, isWhole } = planUndo(target);
  printDiff(
    target,
    text,
    next ?? '',
    backup === undefined ? undefined : client.format.readEntry(next ?? '', target.path),
  );
  if (!isWhole) printLines([`${file} has changed since, so only the entry "${entryName}" is restored.`]);
  if (!(await askConfirmation(invocation, next === undefined ? `Remove ${file}?` : `Restore this in ${file}?`))) {
    printLines(['Nothing was changed.']);
    return 1;
  }
  assertSafeToWrite(target);
  const real = realpathSync(file);
  assertUnchanged(real, text);
  const undone = next === undefined ? undefined : replaceAndDropBackup(real, next, backup);
  if (next === undefined) rmSync(real);
  const data = { client: client.name, file, restored: next !== undefined, undone: undone ?? null };
  const what = isWhole ? file : `the entry "${entryName}" of ${file}`;
  printData(invocation, data, () => escapeControls(next === undefined ? `Removed ${file}.` : `Restored ${what}.`));
  if (undone !== undefined) printLines([`The replaced file: ${undone}`]);
  return 0;
}

interface UndoPlan {
  readonly text: string;
  /** The content to put back; undefined if the file is to be removed. */
  readonly next: string | undefined;
  /** The backup that is used up by it. */
  readonly backup: string | undefined;
  /** False if the file has changed since, so that only the entry is put back. */
  readonly isWhole: boolean;
}

function planUndo(target: ClientTarget): UndoPlan {
  const { client, file, path } = target;
  const text = readClientFile(file);
  const entry = text === undefined ? undefined : client.format.readEntry(text, path);
  const backup = findLatestBackup(file);
  if (text === undefined || !isMap(entry)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `${file} has no entry "${entryName}", so there is nothing to undo.`,
      hint: 'List the clients that are set up with "ambit client".',
    });
  }
  const old = backup === undefined ? undefined : readClientFile(backup);
  const isWritten = (before: string): boolean => {
    try {
      return addEntry(target, before, entry) === text;
    } catch (error) {
      if (!isAmbitError(error)) throw error;
      return false;
    }
  };
  if (old !== undefined && isWritten(old)) return { text, next: old, backup, isWhole: true };
  if (isWritten('')) return { text, next: undefined, backup: undefined, isWhole: true };
  const oldEntry = old === undefined ? undefined : client.format.readEntry(old, path);
  const reset = client.format.setEntry(text, path, isMap(oldEntry) ? oldEntry : undefined);
  const { input } = client;
  const keepsInput = input === undefined || (old?.includes(input.id) ?? false);
  return { text, next: keepsInput ? reset : removeListItem(reset, 'inputs', input.id), backup, isWhole: false };
}
