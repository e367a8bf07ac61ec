import { afterEach, expect, test } from 'vitest';
import { contents, put, type Scene, scene } from './scene.ts';

let at: Scene;
afterEach(() => at.remove());

test('S4: a merge brings no repository into the workspace, whatever its folder is called', async () => {
  at = await scene('copy');
  const before = contents(at.workspace);
  const folder = (await at.folders.folderFor(at.session('one'))) as string;
  const parts = { HEAD: 'ref: refs/heads/main\n', 'objects/x': 'x', 'refs/x': 'x', config: '[core]\n' };
  put(folder, Object.fromEntries(Object.entries(parts).map(([name, content]) => [`docs/${name}`, content])));
  const merging = at.folders.merge({ sessionId: 'one'.padEnd(16, '0'), workspaceId: 'repo' }, {});
  await expect(merging).rejects.toThrow('would make its folder a git repository');
  expect(contents(at.workspace)).toEqual(before);
});
