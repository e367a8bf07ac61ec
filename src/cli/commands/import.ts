import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { loadConfig } from '../../config/load/load.ts';
import { assertNobodyElseWrites } from '../../config/load/read-config-file.ts';
import { AmbitError } from '../../errors.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { describeUnpinned, type ServerPins } from '../../upstreams/pins/server-pins.ts';
import { type Command, type Invocation, jsonFlag, readListFlag, UsageError } from '../command.ts';
import { addServers } from '../import/add-servers.ts';
import { findLatestBackup, replaceWithBackup, restoreBackup } from '../import/backups.ts';
import {
  type Addition,
  clients,
  findClientFiles,
  type ImportSource,
  mayHoldSecrets,
  planImport,
} from '../import/plan-import.ts';
import { askConfirmation, printLines, yesFlag } from '../io/ask.ts';
import { type ConfigPaths, findConfigPaths } from '../io/config-paths.ts';
import { printData } from '../io/output.ts';
import { describeCommand } from '../io/show-server.ts';

type ServerPreview = { readonly server: ServerDefinition; readonly pinned: ServerPins };

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
    const before = existsSync(paths.configFile) ? readFileSync(paths.configFile, 'utf8') : '';
    const { config } = await loadConfig({ text: before === '' ? 'version: 1\n' : before, file: paths.configFile });
    const own = Object.entries(config.servers).filter(([, { source }]) => source !== 'project');
    const sources = findSourceFiles(invocation);
    const plan = await planImport(sources, new Set(own.map(([name]) => name)), config.context.envPrefixes);
    if (plan.additions.length > 0 || invocation.positionals.length === 0)
      printLines(plan.problems.map((line) => `! ${line}`));
    printLines(
      plan.kept.map(
        ({ name, origin }) => `= ${name} (${origin}) skipped: the configuration already has a server of this name`,
      ),
    );
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
    // The new text is read before it is written, so that no invalid configuration is left behind.
    const after = await loadConfig({ text, file: paths.configFile });
    const servers = defineServers(after.config, dirname(paths.configFile));
    const approvals = createApprovals({ dataDir: paths.dataDir, searchPath: invocation.env['PATH'] });
    const previews = plan.additions.map(({ name }) => {
      const server = servers.get(name);
      return server === undefined ? undefined : { server, pinned: approvals.preview(server) };
    });
    printLines(plan.additions.flatMap((addition, i) => describeAddition(addition, previews[i])));
    if (invocation.flags['dry-run'] === true) {
      printData(invocation, { added: [], wouldAdd: names }, () => `Would add: ${names.join(', ')}.`);
      return 0;
    }
    if (!(await askConfirmation(invocation, `Add these to ${paths.configFile} and allow them to start?`))) {
      printLines(['Nothing was added.']);
      return 1;
    }
    mkdirSync(dirname(paths.configFile), { recursive: true, mode: 0o700 });
    const { backup, closedFrom } = replaceWithBackup(paths.configFile, text, plan.additions.some(mayHoldSecrets));
    const unapproved: string[] = [];
    for (const each of previews) {
      if (each === undefined) continue;
      await approvals.approve(each.server, each.pinned).catch((error: Error) => {
        unapproved.push(each.server.name);
        printLines([`! ${error.message}`]);
      });
    }
    printData(invocation, { added: names, backup: backup ?? null, unapproved }, () => `Added: ${names.join(', ')}.`);
    printLines(describeModeChange(closedFrom));
    if (backup !== undefined) printLines([`Backup: ${backup}`, 'Undo with: ambit import --undo']);
    return 0;
  },
};

function findSourceFiles(invocation: Invocation): ImportSource[] {
  const asked = readListFlag(invocation, 'from') ?? [];
  const unknown = asked.find((name) => !clients.some((client) => client === name));
  if (unknown !== undefined) throw new UsageError(`--from takes one of: ${clients.join(', ')}`);
  const named = invocation.positionals.map((word) => ({ file: resolve(word), origin: resolve(word) }));
  if (named.length > 0 && asked.length === 0) return named;
  const known = findClientFiles(invocation.env)
    .filter(({ client, file }) => (asked.length === 0 || asked.includes(client)) && existsSync(file))
    .map(({ client, file }) => ({ file, origin: client }));
  return [...named, ...known];
}

function describeAddition({ name, origin }: Addition, shown: ServerPreview | undefined): string[] {
  if (shown === undefined) return [`+ ${name} (${origin})`, '  disabled'];
  const { pinned, server } = shown;
  const notes = describeUnpinned(pinned, server).map((line) => `  note     ${line}`);
  return [`+ ${name} (${origin})`, ...describeCommand(pinned, server), ...notes];
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
  const before = await readServerNames(readFileSync(backup, 'utf8'), paths.configFile);
  const now = await readServerNames(readFileSync(paths.configFile, 'utf8'), paths.configFile);
  const removed = [...now].filter((name) => !before.has(name));
  printLines([`Restoring ${backup} would change:`, ...removed.map((name) => `- ${name}`)]);
  printLines([...before].filter((name) => !now.has(name)).map((name) => `+ ${name}`));
  if (!(await askConfirmation(invocation, 'Restore it?'))) {
    printLines(['Nothing was changed.']);
    return 1;
  }
  const { undone, closedFrom } = restoreBackup(paths.configFile, backup);
  const approvals = createApprovals({ dataDir: paths.dataDir });
  for (const name of removed) await approvals.revoke(name);
  printData(invocation, { restored: backup, undone, removed }, () => 'Restored the configuration.');
  printLines([...describeModeChange(closedFrom), `The replaced configuration: ${undone}`]);
  return 0;
}

/** The servers that a configuration declares; none when it is not valid, since it can be put back all the same. */
async function readServerNames(text: string, file: string): Promise<Set<string>> {
  const loaded = await loadConfig({ text, file }).catch(() => undefined);
  const servers = Object.entries(loaded?.config.servers ?? {});
  return new Set(servers.filter(([, { source }]) => source !== 'project').map(([name]) => name));
}

/** Tells the person that other accounts can no longer read the configuration, which they could before. */
function describeModeChange(mode: number | undefined): string[] {
  if (mode === undefined) return [];
  const [now, before] = [mode & 0o700, mode].map((each) => each.toString(8).padStart(4, '0'));
  return [`The configuration may contain secrets now. Only you can read it (mode ${now} instead of ${before}).`];
}
