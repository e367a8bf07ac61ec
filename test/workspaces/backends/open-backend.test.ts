import { expect, onTestFinished, test } from 'vitest';
import { workspacesSchema } from '../../../src/config/schema/schema-workspace.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { ContainerBackends } from '../../../src/workspaces/backends/container/container-backends.ts';
import { openBackend } from '../../../src/workspaces/workspace-files.ts';
import type { WorkspaceConfig } from '../../../src/workspaces/workspaces.ts';
import { refusalCode, toBytes } from './suite/suite-workspace.ts';

const createConfig = (name: string, id?: string) => {
  const workspace = { backend: 'database', files: id === undefined ? {} : { id } };
  return workspacesSchema.parse({ [name]: workspace })[name] as WorkspaceConfig;
};

test('S2: a workspace with an id does not get the files of an earlier workspace of that name', async () => {
  const { documents, close } = openMemoryStore();
  onTestFinished(close);
  const parts = { documents, ripgrep: undefined, containers: {} as ContainerBackends, dataDir: '/nowhere' };
  const open = (name: string, id?: string) =>
    openBackend({ id: name, workspace: createConfig(name, id), folder: undefined }, parts);
  const read = async (name: string, id?: string) => refusalCode((await open(name, id)).stat('private.txt'));

  await (await open('drafts')).write('private.txt', toBytes('of the first'));
  expect(await read('drafts', 'second')).toBe('FILE_NOT_FOUND');
  expect(await read('other', 'drafts')).toBe('FILE_NOT_FOUND');
  await (await open('drafts', 'second')).write('private.txt', toBytes('of the second'));
  expect(await read('second')).toBe('FILE_NOT_FOUND');
  expect(await read('other', 'second')).toBe('FILE_NOT_FOUND');

  // Removing the id brings the former files back.
  const file = await (await open('drafts')).open('private.txt');
  expect(Buffer.from(await file.read(0, 100)).toString()).toBe('of the first');
});

test('S2: an id is refused for backends that cannot separate files by it', () => {
  const local = { a: { path: '/nowhere', files: { id: 'x' } } };
  expect(workspacesSchema.safeParse(local).error?.issues).toMatchObject([{ path: ['a', 'files', 'id'] }]);
});
