import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load/load.ts';
import type { Session } from '../../src/sessions/session.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { openLocal } from '../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../src/workspaces/path-guard.ts';
import { createWorkspaces } from '../../src/workspaces/workspaces.ts';
import { createWriteQuota } from '../../src/workspaces/write-quota.ts';
import { createSceneForTest } from './saferoot/scene.ts';

test('W6: edits of one file run one at a time over all workspaces that hold it', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('part'));
  const paths = { whole: scene.inside(), again: scene.inside(), part: scene.inside('part') };
  const workspaces = Object.fromEntries(Object.entries(paths).map(([id, path]) => [id, { path }]));
  const { config } = await loadConfig({
    text: JSON.stringify({ version: 1, workspaces }),
    file: join(scene.base, 'ambit.yaml'),
  });
  const store = openMemoryStore();
  const files = createWorkspaces({
    find: (id) => config.workspaces[id],
    folderFor: async ({ workspaceId }) => config.workspaces[workspaceId as string]?.path,
    open: async ({ folder, workspace }) =>
      openLocal(folder as string, { ...workspace.files, rules: createPathRules(workspace.files) }),
    quota: createWriteQuota({
      documents: store.documents,
      isEnded: async (id) => (await store.get(id)) === undefined,
    }),
    onChange: () => {},
  });
  const order: string[] = [];
  const turn = (workspaceId: string, path: string) =>
    files.in(
      { id: workspaceId, workspaceId } as Session,
      () => {},
      (each) =>
        each.runExclusive(path, async () => {
          order.push(`${workspaceId} begins`);
          await new Promise((next) => setTimeout(next, 20));
          order.push(`${workspaceId} ends`);
        }),
    );
  await Promise.all([turn('whole', 'part/f'), turn('part', './f'), turn('again', 'part//f')]);
  for (let at = 0; at < order.length; at += 2) {
    expect(order[at + 1]).toBe(order[at]?.replace('begins', 'ends'));
  }
  expect(order).toHaveLength(6);
  await files.close();
  await store.close();
});
