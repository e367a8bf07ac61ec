import { chmodSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished } from 'vitest';
import { counts } from '../../proof.ts';
import { createScene, gitOfSuites, type Isolation, readFiles, type Scene, writeFiles } from './scene.ts';

/** In pairs: the second of each changes the same line as the first. */
const pairs = counts(4, 10);
const sessions = Array.from({ length: 2 * pairs }, (_, i) => i);
const idOf = (i: number) => `hammering-session-${String(i).padStart(2, '0')}`;

/** Many sessions, in three processes so to speak, each at work in its own folder of one repository. */
export async function hammerFolders(isolation: Isolation): Promise<void> {
  const files = Object.fromEntries([
    ...Array.from({ length: 30 }, (_, i) => [`src/${i % 3}/file-${i}.txt`, makeLines(`file ${i}`)]),
    ['shared.txt', makeLines('shared')],
  ]);
  const at = await createScene(isolation, { files, git: gitOfSuites });
  onTestFinished(at.remove);
  const processes = [at.folders, await at.another(), await at.another()];
  const by = (i: number) => processes[i % 3] as Scene['folders'];
  const name = (i: number) => ({ sessionId: idOf(i), workspaceId: 'repo' });
  const folders = await Promise.all(
    sessions.map(async (i) => (await by(i).folderFor(at.session(idOf(i), `task-${i}`))) as string),
  );
  expect(new Set(folders).size).toBe(sessions.length);

  // Each writes its own marks into files that all have, makes some, and deletes one.
  const work = async (i: number): Promise<void> => {
    const folder = folders[i] as string;
    for (let round = 0; round < counts(3, 100); round++) {
      const mine = `session ${i} round ${round}`;
      writeFileSync(join(folder, 'shared.txt'), makeLines('shared', i, mine));
      writeFiles(folder, { [`own/${i}/${round % 3}.txt`]: `${mine}\n` });
      await new Promise(setImmediate);
      const seen = JSON.stringify(readFiles(folder));
      for (const [, other] of seen.matchAll(/session (\d+) round/g)) expect(Number(other)).toBe(i);
    }
    rmSync(join(folder, `src/${i % 3}/file-${i}.txt`));
    chmodSync(join(folder, modeFile(i)), 0o755);
  };
  await Promise.all(sessions.map(work));

  const diffs = await Promise.all(sessions.map((i) => by(i + 1).diff(name(i))));
  for (const [i, { files: changed, patch }] of diffs.entries()) {
    expect(changed.map(({ path }) => path).sort()).toEqual(
      [...[0, 1, 2].map((n) => `own/${i}/${n}.txt`), 'shared.txt', `src/${i % 3}/file-${i}.txt`, modeFile(i)].sort(),
    );
    for (const [, other] of patch.matchAll(/^\+session (\d+) round/gm)) expect(Number(other)).toBe(i);
  }

  // Odd ones change the same line as their neighbour before: those merges must report, the others land.
  for (const i of sessions.filter((each) => each % 2 === 1)) {
    writeFileSync(join(folders[i] as string, 'shared.txt'), makeLines('shared', i - 1, `session ${i} round odd`));
  }
  const merges = await Promise.all(sessions.map((i) => by(i + 2).merge(name(i), {})));
  const landed = sessions.filter((i) => merges[i]?.fits);
  // Of each pair one comes first, whichever it is.
  expect(landed).toHaveLength(pairs);
  expect(new Set(landed.map((i) => i >> 1)).size).toBe(pairs);
  for (const i of sessions) {
    const conflicts = merges[i]?.files.filter(({ outcome }) => outcome === 'conflict').map(({ path }) => path);
    expect(conflicts).toEqual(landed.includes(i) ? [] : ['shared.txt']);
  }
  const workspace = readFiles(at.workspace);
  const marks = (workspace['shared.txt'] as string).match(/session (\d+) round/g) ?? [];
  expect(marks.map((mark) => Number(/\d+/.exec(mark)?.[0])).sort((a, b) => a - b)).toEqual(landed);
  for (const i of sessions) {
    const arrived = [0, 1, 2].filter((n) => workspace[`own/${i}/${n}.txt`] !== undefined);
    expect(arrived).toHaveLength(landed.includes(i) ? 3 : 0);
    if (landed.includes(i)) {
      expect(readFileSync(join(at.workspace, `own/${i}/0.txt`))).toEqual(
        readFileSync(join(folders[i] as string, `own/${i}/0.txt`)),
      );
    }
    expect(workspace[`src/${i % 3}/file-${i}.txt`] === undefined).toBe(landed.includes(i));
  }
}

function modeFile(i: number): string {
  const file = (i % 10) + 20;
  return `src/${file % 3}/file-${file}.txt`;
}

/** Room enough between the lines of two sessions that changes of both can be put together. */
function makeLines(word: string, session = -1, mark = ''): string {
  return Array.from({ length: 45 }, (_, n) => `${n === 2 * session + 2 ? mark : `${word} ${n}`}\n`).join('');
}
