import { lstat, mkdtemp, readdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { makePrivateFolder } from '../../lib/fs/private-files.ts';
import { removeFolder } from '../../lib/fs/remove-folder.ts';
import { removeAllContainers } from '../container/engine.ts';
import { removeAllCgroups } from '../limits/cgroup-notes.ts';
import { killUntilGone } from '../processes/process-family.ts';
import { readProcess } from '../processes/process-table.ts';
import { isOwnerAlive, readOwner, thisProcess, writeOwner } from '../reaper/reaper-protocol.ts';

export interface Leftovers {
  /** The removed folders of dead instances. */
  readonly removed: readonly string[];
  /** The number of their processes that were still running. */
  readonly killed: number;
}

/** A younger folder without an owner may be in the making. */
const ownerlessGraceMs = 60_000;

/** Makes the folder of this instance, with the file that names its owner. Nobody else may read either folder. */
export async function createTmpRoot(tmpParent: string): Promise<string> {
  const parent = resolve(tmpParent);
  makePrivateFolder(parent);
  if (!(await lstat(parent)).isDirectory()) {
    throw new Error(`The folder for temporary files must belong to the user that runs Ambit: ${parent}`);
  }
  const root = await mkdtemp(join(parent, 'instance-'));
  await writeOwner(root, thisProcess());
  return root;
}

/** Ends processes and removes folders of instances whose reaper died too. Runs at start. */
export async function sweepLeftovers(tmpParent: string): Promise<Leftovers> {
  const parent = resolve(tmpParent);
  const abandoned: string[] = [];
  for (const entry of await readdir(parent, { withFileTypes: true }).catch(() => [])) {
    const root = join(parent, entry.name);
    if (entry.isDirectory() && (await isAbandoned(root))) abandoned.push(root);
  }
  if (abandoned.length === 0) return { removed: [], killed: 0 };

  const ownGroup = readProcess(process.pid)?.group;
  const family = {
    roots: [],
    isOurs: (tmpDir: string) => abandoned.some((root) => tmpDir.startsWith(`${root}/`)),
    since: 0,
    isSpared: (entry: { pid: number; group: number }) => entry.pid === process.pid || entry.group === ownGroup,
  };
  const killed = await killUntilGone(family, { emptyRounds: 2, pauseMs: 10, limitMs: 2000 });
  await Promise.all(abandoned.map((root) => removeAllContainers(root)));
  await Promise.all(abandoned.map((root) => removeAllCgroups(root)));
  const gone = await Promise.all(abandoned.map((root) => removeFolder(root)));
  return { removed: abandoned.filter((_, index) => gone[index]), killed };
}

async function isAbandoned(root: string): Promise<boolean> {
  const owner = await readOwner(root);
  if (owner !== undefined) return !isOwnerAlive(owner);
  const stat = await lstat(root).catch(() => undefined);
  return stat !== undefined && Date.now() - stat.mtimeMs > ownerlessGraceMs;
}
