import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { loadConfig } from '../../config/load/load.ts';
import { assertNobodyElseWrites } from '../../config/load/read-config-file.ts';
import { AmbitError } from '../../errors.ts';
import { defineServers, type ServerDefinition } from '../../upstreams/definition.ts';
import { createApprovals } from '../../upstreams/pins/approvals.ts';
import { whatIsNotPinned } from '../../upstreams/pins/not-pinned.ts';
import type { Pinned } from '../../upstreams/pins/pinned.ts';
import { type Command, type Invocation, jsonFlag, UsageFault } from '../command.ts';
import { addServers } from '../import/add-servers.ts';
import { latestBackup, replaceWithBackup, restoreBackup } from '../import/backups.ts';
import { type Addition, clients, type Found, knownPlaces, mayHoldSecret, planImport } from '../import/plan-import.ts';
import { agreed, tell, yesFlag } from '../io/ask.ts';
import { type Places, placesOf } from '../io/config-paths.ts';
import { print } from '../io/output.ts';
import { whatWouldRun } from '../io/show-server.ts';

type Shown = { readonly server: ServerDefinition; readonly pinned: Pinned };

export const importCommand: Command = {
  path: ['import'],
  operands: '[FILE]…',
  help: `take over servers of ${clients.join(', ')}`,
  flags: {
    from: { type: 'string', value: 'CLIENT', help: 'whose files; repeatable', multiple: true },
    'dry-run': { type: 'boolean', help: 'only show what would be added' },
    undo: { type: 'boolean', help: 'put the configuration back as it was' },
    yes: yesFlag,
    json: jsonFlag,
  },
  async run(invocation) {
    const places = placesOf(invocation);
    assertNobodyElseWrites(places.configFile);
    if (invocation.flags['undo'] === true) return undoImport(invocation, places);
    const before = existsSync(places.configFile) ? readFileSync(places.configFile, 'utf8') : '';
    const { config } = await loadConfig({ text: before === '' ? 'version: 1\n' : before, file: places.configFile });
    const own = Object.entries(config.servers).filter(([, { source }]) => source !== 'project');
    const plan = await planImport(filesOf(invocation), new Set(own.map(([name]) => name)), config.context.envPrefixes);
    tell(plan.problems.map((line) => `! ${line}`));
    tell(plan.kept.map(({ name, origin }) => `= ${name} (${origin}) has a namesake already, which stays`));
    const names = plan.additions.map(({ name }) => name);
    if (names.length === 0) {
      print(invocation, { added: [] }, () => 'Nothing to add.');
      return 0;
    }
    const text = addServers(before, plan.additions);
    // Nothing is written that could not be read again.
    const after = await loadConfig({ text, file: places.configFile });
    const servers = defineServers(after.config, dirname(places.configFile));
    const approvals = createApprovals({ dataDir: places.dataDir, searchPath: invocation.env['PATH'] });
    const shown = plan.additions.map(({ name }) => {
      const server = servers.get(name);
      return server === undefined ? undefined : { server, pinned: approvals.preview(server) };
    });
    tell(plan.additions.flatMap((addition, i) => describe(addition, shown[i])));
    if (invocation.flags['dry-run'] === true) {
      print(invocation, { added: [], wouldAdd: names }, () => `Would add: ${names.join(', ')}.`);
      return 0;
    }
    if (!(await agreed(invocation, `Add these to ${places.configFile}, and let them start like this?`))) {
      tell(['Nothing was added.']);
      return 1;
    }
    mkdirSync(dirname(places.configFile), { recursive: true, mode: 0o700 });
    const { backup, closedFrom } = replaceWithBackup(places.configFile, text, plan.additions.some(mayHoldSecret));
    const unapproved: string[] = [];
    for (const each of shown) {
      if (each === undefined) continue;
      await approvals.approve(each.server, each.pinned).catch((error: Error) => {
        unapproved.push(each.server.name);
        tell([`! ${error.message}`]);
      });
    }
    print(invocation, { added: names, backup: backup ?? null, unapproved }, () => `Added: ${names.join(', ')}.`);
    tell(describeClosing(closedFrom));
    if (backup !== undefined) tell([`The configuration as it was: ${backup}`, 'To go back: ambit import --undo']);
    return 0;
  },
};

function filesOf(invocation: Invocation): Found[] {
  const asked = (invocation.flags['from'] as string[] | undefined) ?? [];
  const unknown = asked.find((name) => !clients.some((client) => client === name));
  if (unknown !== undefined) throw new UsageFault(`--from takes one of: ${clients.join(', ')}`);
  const named = invocation.words.map((word) => ({ file: resolve(word), origin: resolve(word) }));
  if (named.length > 0 && asked.length === 0) return named;
  const known = knownPlaces(invocation.env)
    .filter(({ client, file }) => (asked.length === 0 || asked.includes(client)) && existsSync(file))
    .map(({ client, file }) => ({ file, origin: client }));
  return [...named, ...known];
}

function describe({ name, origin }: Addition, shown: Shown | undefined): string[] {
  if (shown === undefined) return [`+ ${name} (${origin})`, '  disabled'];
  const { pinned, server } = shown;
  const notes = whatIsNotPinned(pinned, server).map((line) => `  note     ${line}`);
  return [`+ ${name} (${origin})`, ...whatWouldRun(pinned, server), ...notes];
}

/** Puts the latest backup back. Approvals of servers that go with it go too. */
async function undoImport(invocation: Invocation, places: Places): Promise<number> {
  const backup = latestBackup(places.configFile);
  if (backup === undefined || !existsSync(places.configFile)) {
    throw new AmbitError('CONFIG_INVALID', {
      what: `There is no backup of ${places.configFile}.`,
      hint: 'Backups are made by "ambit import", and each can be put back once.',
    });
  }
  assertNobodyElseWrites(backup);
  const before = await namesIn(readFileSync(backup, 'utf8'), places.configFile);
  const now = await namesIn(readFileSync(places.configFile, 'utf8'), places.configFile);
  const removed = [...now].filter((name) => !before.has(name));
  tell([`${backup} would be put back.`, ...removed.map((name) => `- ${name}`)]);
  tell([...before].filter((name) => !now.has(name)).map((name) => `+ ${name}`));
  if (!(await agreed(invocation, 'Put it back?'))) {
    tell(['Nothing was changed.']);
    return 1;
  }
  const { undone, closedFrom } = restoreBackup(places.configFile, backup);
  const approvals = createApprovals({ dataDir: places.dataDir });
  for (const name of removed) await approvals.revoke(name);
  print(invocation, { restored: backup, undone, removed }, () => 'The configuration is as it was.');
  tell([...describeClosing(closedFrom), `What it was until now: ${undone}`]);
  return 0;
}

/** What a file that is not valid any more names is not known; it can be put back all the same. */
async function namesIn(text: string, file: string): Promise<Set<string>> {
  const loaded = await loadConfig({ text, file }).catch(() => undefined);
  const servers = Object.entries(loaded?.config.servers ?? {});
  return new Set(servers.filter(([, { source }]) => source !== 'project').map(([name]) => name));
}

/** Says that the configuration can no longer be read by others, which it could before. */
function describeClosing(mode: number | undefined): string[] {
  if (mode === undefined) return [];
  const [now, before] = [mode & 0o700, mode].map((each) => each.toString(8).padStart(4, '0'));
  return [
    `The configuration may hold secrets now. Others may not read it any more (mode ${now} instead of ${before}).`,
  ];
}
