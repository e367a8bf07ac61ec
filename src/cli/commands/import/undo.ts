import { existsSync, readFileSync } from 'node:fs';
import { loadConfig } from '../../../config/load/load.ts';
import { assertNobodyElseWrites } from '../../../config/load/read-config-file.ts';
import { AmbitError } from '../../../errors.ts';
import { createApprovals } from '../../../upstreams/pins/approvals.ts';
import type { Invocation } from '../../command.ts';
import { latestBackup, restoreBackup } from '../../import/backups.ts';
import { agreed, tell } from '../../io/ask.ts';
import { print } from '../../io/output.ts';
import type { Places } from '../../io/places.ts';

/** Puts the latest backup back. Approvals of servers that go with it go too. */
export async function undoImport(invocation: Invocation, places: Places): Promise<number> {
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
export function describeClosing(mode: number | undefined): string[] {
  if (mode === undefined) return [];
  const [now, before] = [mode & 0o700, mode].map((each) => each.toString(8).padStart(4, '0'));
  return [
    `The configuration may hold secrets now. Others may not read it any more (mode ${now} instead of ${before}).`,
  ];
}
