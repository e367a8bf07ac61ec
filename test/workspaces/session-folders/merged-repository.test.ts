import { afterEach, expect, test } from 'vitest';
import { createScene, readFiles, type Scene, writeFiles } from './scene.ts';

let at: Scene;
afterEach(() => at.remove());

test('S4: a merge brings no repository into the workspace, whatever its folder is called', async () => {
  at = await createScene('copy');
  const before = readFiles(at.workspace);
  const folder = (await at.folders.folderFor(at.session('one'))) as string;
  const parts = { HEAD: 'ref: refs/heads/main\n', 'objects/x': 'x', 'refs/x': 'x', config: '[core]\n' };
  writeFiles(folder, Object.fromEntries(Object.entries(parts).map(([name, content]) => [`docs/${name}`, content])));
  const merging = at.folders.merge({ sessionId: 'one'.padEnd(16, '0'), workspaceId: 'repo' }, {});
  await expect(merging).rejects.toThrow(/^The merge is refused\. .*would turn its folder into a git repository/);
  expect(readFiles(at.workspace)).toEqual(before);
});

test('S5: what would be merged into a repository without a ".git" is refused, and the rest is merged', async () => {
  at = await createScene('copy');
  writeFiles(at.workspace, { 'bare/HEAD': 'ref: refs/heads/main\n', 'bare/objects/x': 'x', 'bare/refs/x': 'x' });
  const folder = (await at.folders.folderFor(at.session('one'))) as string;
  writeFiles(folder, { 'bare/config': '[core]\n', 'bare/refs/heads/main': 'x', 'bare/refs/x': 'y', 'beside.txt': 'x' });
  const before = readFiles(at.workspace);
  const { fits, files } = await at.folders.merge({ sessionId: 'one'.padEnd(16, '0'), workspaceId: 'repo' }, {});
  const refused = { outcome: 'refused', reason: 'is part of a git repository, which sessions may not change' };
  expect({ fits, files }).toMatchObject({
    fits: true,
    files: [
      { path: 'bare/config', ...refused },
      { path: 'bare/refs/heads/main', ...refused },
      { path: 'bare/refs/x', ...refused },
      { path: 'beside.txt', outcome: 'taken' },
    ],
  });
  expect(readFiles(at.workspace)).toEqual({ ...before, 'beside.txt': expect.anything() });
});
