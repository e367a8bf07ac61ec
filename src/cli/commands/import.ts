import { existsSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { parse } from 'yaml';
import { findLatestBackup, readBackup, restoreBackup, wasCreated } from '../../config/edit/backups.ts';
import { addServers, mayHoldSecrets } from '../../config/edit/edit-servers.ts';
import {
  assertSameConfiguration,
  describeModeChange,
  replaceConfiguration,
} from '../../config/edit/replace-configuration.ts';
import { loadConfig } from '../../config/load/load.ts';
import { assertNobodyElseWrites } from '../../config/load/read-config-file.ts';
import { isMap } from '../../config/schema/schema-parts.ts';
import { AmbitError } from '../../errors.ts';
import { makeFolders } from '../../lib/fs/make-folders.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { previewAdditions } from '../../upstreams/pins/preview-additions.ts';
import { type Command, type Invocation, jsonFlag, readListFlag, UsageError } from '../command.ts';
import {
  clients,
  describeOtherProjects,
  findClientSources,
  findProjectFolders,
  type ImportSource,
  phraseQuestion,
  planImport,
} from '../import/plan-import.ts';
import { askConfirmation, printLines, yesFlag } from '../io/ask.ts';
import { type ConfigPaths, findConfigPaths } from '../io/config-paths.ts';
import { printData } from '../io/output.ts';

export const importCommand: Command = {
  operands: '[FILE]…',
  help: 'Import servers from other MCP clients',
  flags: {
    from: { type: 'string', value: 'CLIENT', help: `Client: ${clients.join(', ')}`, multiple: true, choices: clients },
    'dry-run': { type: 'boolean', help: 'Show what would be added, and change nothing' },
    undo: { type: 'boolean', help: 'Restore the configuration from before the last import' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const paths = findConfigPaths(invocation);
    assertNobodyElseWrites(paths.configFile);
    if (invocation.flags['undo'] === true) return undoImport(invocation, paths);
    const hasConfiguration = existsSync(paths.configFile);
    const before = hasConfiguration ? readFileSync(paths.configFile, 'utf8') : '';
    const { config } = await loadConfig({ text: before === '' ? 'version: 1\n' : before, file: paths.configFile });
    const own = Object.entries(config.servers).filter(([, { source }]) => source !== 'project');
    const sources = findSourceFiles(invocation);
    const existing = new Set(own.map(([name]) => name));
    const projects = findProjectFolders();
    const plan = await planImport(sources, { existing, prefixes: config.context.envPrefixes, projects });
    if (plan.additions.length > 0 || invocation.positionals.length === 0)
      printLines(plan.problems.map((line) => `! ${line}`));
    printLines(
      plan.kept.map(
        ({ name, origin }) => `= ${name} (${origin}) skipped: the configuration already has a server of this name`,
      ),
    );
    printLines(describeOtherProjects(plan.otherProjects));
    const names = plan.additions.map(({ name }) => name);
    if (names.length === 0) {
      if (invocation.positionals.length > 0 && plan.problems.length > 0) {
        throw new AmbitError('CONFIG_INVALID', {
          what: `Nothing can be imported: ${plan.problems[0]}`,
          hint: 'Give a file that contains "mcpServers" (Claude, Cursor) or "servers" (VS Code).',
        });
      }
      printData(invocation, { added: [] }, () => 'Nothing to add.');
      if (sources.length === 0) {
        const asked = readListFlag(invocation, 'from') ?? clients;
        printLines([`No configuration of ${asked.join(', ')} was found. Import a file with: ambit import FILE`]);
      }
      return 0;
    }
    const text = addServers(before, plan.additions);
    const searchPath = invocation.env['PATH'];
    const previews = await previewAdditions(plan.additions, { text, paths, searchPath });
    printLines(previews.lines);
    if (invocation.flags['dry-run'] === true) {
      printData(invocation, { added: [], wouldAdd: names }, () => `Would add: ${names.join(', ')}.`);
      return 0;
    }
    if (!(await askConfirmation(invocation, phraseQuestion(plan.additions.length)))) {
      printLines(['Nothing was added.']);
      return 1;
    }
    assertSameConfiguration(paths.configFile, hasConfiguration ? before : undefined);
    makeFolders(dirname(paths.configFile));
    const { backup, closedFrom } = replaceConfiguration(paths.configFile, text, plan.additions.some(mayHoldSecrets));
    const refused = await previews.approve();
    printLines(refused.map(({ reason }) => `! ${reason}`));
    const unapproved = refused.map(({ name }) => name);
    printData(invocation, { added: names, backup: backup ?? null, unapproved }, () => `Added: ${names.join(', ')}.`);
    printLines(describeModeChange(closedFrom));
    printLines([
      backup === undefined ? `Created ${paths.configFile}` : `Backup: ${backup}`,
      'Undo with: ambit import --undo',
    ]);
    return 0;
  },
};

function findSourceFiles(invocation: Invocation): ImportSource[] {
  const asked = readListFlag(invocation, 'from') ?? [];
  const unknown = asked.find((name) => !clients.some((client) => client === name));
  if (unknown !== undefined) throw new UsageError(`--from takes one of: ${clients.join(', ')}`);
  const named = invocation.positionals.map((word) => ({ file: resolve(word), origin: resolve(word) }));
  if (named.length > 0 && asked.length === 0) return named;
  const known = findClientSources(invocation.env).filter(({ origin }) => asked.length === 0 || asked.includes(origin));
  return [...named, ...known];
}

/** Puts the latest backup back, and revokes the approvals of the servers that are removed with it. */
async function undoImport(invocation: Invocation, paths: ConfigPaths): Promise<number> {
  const backup = findLatestBackup(paths.configFile);
  if (backup === undefined || !existsSync(paths.configFile)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `There is no backup of ${paths.configFile}.`,
      hint: '"ambit import" makes a backup. Each backup can be restored once.',
    });
  }
  assertNobodyElseWrites(backup);
  const isRemoved = wasCreated(backup);
  const before = isRemoved ? new Set<string>() : await readServerNames(readBackup(backup), paths.configFile);
  const now = await readServerNames(readFileSync(paths.configFile, 'utf8'), paths.configFile);
  const removed = [...now].filter((name) => !before.has(name));
  const change = isRemoved ? `Undoing removes ${paths.configFile}, which is new:` : `Restoring ${backup} would change:`;
  printLines([change, ...removed.map((name) => `- ${name}`)]);
  printLines([...before].filter((name) => !now.has(name)).map((name) => `+ ${name}`));
  if (!isRemoved) printLines(describeOtherChanges(readFileSync(paths.configFile, 'utf8'), readBackup(backup)));
  if (!(await askConfirmation(invocation, isRemoved ? 'Remove it?' : 'Restore it?'))) {
    printLines(['Nothing was changed.']);
    return 1;
  }
  const { undone, closedFrom } = restoreBackup(paths.configFile, backup);
  const approvals = createApprovals({ dataDir: paths.dataDir });
  for (const name of removed) await approvals.revoke(name);
  const restored = isRemoved ? null : backup;
  printData(invocation, { restored, undone, removed }, () =>
    isRemoved ? 'Removed the configuration.' : 'Restored the configuration.',
  );
  printLines([...describeModeChange(closedFrom), `The replaced configuration: ${undone}`]);
  return 0;
}

/** Names what else a backup puts back: changes that were made after the import would be lost without a word. */
function describeOtherChanges(now: string, backup: string): string[] {
  const [present, old] = [now, backup].map(readSettings) as [Entries, Entries];
  const listChanged = (one: Entries, other: Entries) =>
    [...new Set([...Object.keys(one), ...Object.keys(other)])].filter(
      (key) => !isDeepStrictEqual(one[key], other[key]),
    );
  const [ours, theirs] = [present, old].map(({ servers }) => (isMap(servers) ? servers : {})) as [Entries, Entries];
  const redefined = listChanged(ours, theirs).filter(
    (name) => Object.hasOwn(ours, name) && Object.hasOwn(theirs, name),
  );
  const others = listChanged(present, old).filter((key) => key !== 'servers');
  return [
    ...redefined.map((name) => `~ ${name}`),
    ...(others.length === 0 ? [] : [`Other settings go back too: ${others.join(', ')}.`]),
  ];
}

type Entries = Record<string, unknown>;

function readSettings(text: string): Entries {
  try {
    const value: unknown = parse(text, { schema: 'core', version: '1.2' });
    return isMap(value) ? value : {};
  } catch {
    return {};
  }
}

/** The servers that a configuration declares; none when it is not valid, since it can be put back all the same. */
async function readServerNames(text: string, file: string): Promise<Set<string>> {
  const loaded = await loadConfig({ text, file }).catch(() => undefined);
  const servers = Object.entries(loaded?.config.servers ?? {});
  return new Set(servers.filter(([, { source }]) => source !== 'project').map(([name]) => name));
}
