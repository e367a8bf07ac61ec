import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { borrowedContent, readAllFiles, redirectedWrites } from '../../fixtures/hostile/linked-repository.ts';
import { proof } from '../../proof.ts';
import { nameOf, readFiles, type Scene, useScenes, writeFiles } from './scene.ts';

const opened = useScenes();

const secret = 'nobody but the other workspace knows this';

async function createTwoWorkspaces(): Promise<{ readonly mine: Scene; readonly theirs: Scene }> {
  return { mine: await opened('worktree'), theirs: await opened('worktree', { files: { 'secret.txt': secret } }) };
}

/** All that Ambit does with git for a session, and all that comes out of it. */
async function useFolder(at: Scene, id: string): Promise<string> {
  const told: unknown[] = [];
  const attempt = async (work: () => Promise<unknown>) => told.push(await work().catch((error: unknown) => `${error}`));
  await attempt(async () => {
    const folder = (await at.folders.folderFor(at.session(id, id))) as string;
    told.push(readFiles(folder));
    writeFiles(folder, { 'readme.md': 'changed\n', 'secret.txt': 'changed\n' });
  });
  await attempt(() => at.folders.diff(nameOf(id)));
  await attempt(() => at.folders.merge(nameOf(id), {}));
  await attempt(() => at.folders.ended(nameOf(id).sessionId));
  return JSON.stringify([told, readFiles(at.workspace), at.said]);
}

/** Those that once led there; all of them in a proof run. */
const [readers, writers] = proof
  ? [Object.keys(borrowedContent), Object.keys(redirectedWrites)]
  : [
      ['folders of objects', 'packs'],
      ['the folder of the branches to come', 'one log'],
    ];

describe('S5: git that works for one workspace stays out of the repository of another', () => {
  test.each(readers)('%s that lead there show nothing of it', async (which) => {
    const { mine, theirs } = await createTwoWorkspaces();
    borrowedContent[which]?.({ own: join(mine.workspace, '.git'), foreign: join(theirs.workspace, '.git') });
    const before = readAllFiles(theirs.workspace);
    const told = await useFolder(mine, 'one');
    expect(told).not.toContain(secret);
    expect(told).not.toContain(theirs.folder);
    expect(readAllFiles(theirs.workspace)).toEqual(before);
  });

  test.each(writers)('nothing is written through %s', async (which) => {
    const { mine, theirs } = await createTwoWorkspaces();
    redirectedWrites[which]?.({ own: join(mine.workspace, '.git'), foreign: join(theirs.workspace, '.git') });
    const before = readAllFiles(theirs.workspace);
    await mine.folders.folderFor(mine.session('victim', 'victim')).catch(() => {});
    expect(readAllFiles(theirs.workspace)).toEqual(before);
    await useFolder(mine, 'victim');
    expect(readAllFiles(theirs.workspace)).toEqual(before);
  });
});
