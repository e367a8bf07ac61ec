import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { loadConfig } from '../../../config/load/load.ts';
import { assertNobodyElseWrites } from '../../../config/load/read-config-file.ts';
import { defineServers, type ServerDefinition } from '../../../upstreams/definition.ts';
import { createApprovals } from '../../../upstreams/pins/approvals.ts';
import { type Pinned, whatIsNotPinned } from '../../../upstreams/pins/server-pins.ts';
import { type Command, type Invocation, jsonFlag, UsageFault } from '../../command.ts';
import { addServers } from '../../import/add-servers.ts';
import { replaceWithBackup } from '../../import/backups.ts';
import { clients, knownPlaces } from '../../import/known-places.ts';
import { type Addition, type Found, mayHoldSecret, planImport } from '../../import/plan-import.ts';
import { agreed, tell, yesFlag } from '../../io/ask.ts';
import { print } from '../../io/output.ts';
import { placesOf } from '../../io/places.ts';
import { whatWouldRun } from '../server/show-server.ts';
import { describeClosing, undoImport } from './undo.ts';

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
