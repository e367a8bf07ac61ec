import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openBoundedGateway } from '../../gateway/bounded-gateway.ts';

const on = openBoundedGateway();

interface Answer {
  readonly matches: readonly { readonly path: string; readonly text: string }[];
  readonly index: { readonly state: string };
}

test('W1: a session with its own folder has its own index, which is removed with the folder', async () => {
  const garden = join(on.folder, 'garden');
  mkdirSync(garden);
  writeFileSync(join(garden, 'plants.ts'), 'export function waterRoses() {}\n');
  await on.start('modern', {
    servers: {},
    workspaces: { garden: { path: garden, isolation: 'copy', onEnd: 'remove' } },
  });
  const [ada, bob] = await Promise.all(['ada', 'bob'].map((userId) => openSession(userId)));
  if (ada === undefined || bob === undefined) throw new Error('no session');
  await ada.call('session_edit_file', { path: 'secret.ts', content: 'export const adasOwnHydrangea = 1;\n' });

  expect(await ada.find('hydrangea')).toEqual(['secret.ts']);
  expect(await ada.find('water the roses')).toEqual(['plants.ts']);
  expect(await bob.find('water the roses')).toEqual(['plants.ts']);
  expect(await bob.find('hydrangea')).toEqual([]);
  await expect(
    bob.call('session_codebase_search', { session: ada.id, query: 'hydrangea' }),
  ).resolves.not.toHaveProperty('structuredContent');

  const listIndexes = () => readdirSync(join(on.dataDir, 'search')).filter((name) => name.endsWith('.db'));
  expect(listIndexes()).toHaveLength(2);
  for (const name of readdirSync(join(on.dataDir, 'search')))
    expect(statSync(join(on.dataDir, 'search', name)).mode & 0o777).toBe(0o600);

  await on.gateway.endSession(ada.id);
  await expect.poll(() => listIndexes().length, { timeout: 30_000 }).toBe(1);
  const rest = readdirSync(join(on.dataDir, 'search')).map((name) =>
    readFileSync(join(on.dataDir, 'search', name), 'latin1'),
  );
  expect(rest.join('')).not.toContain('hydrangea');
});

async function openSession(userId: string) {
  const { id } = await on.gateway.createSession({ workspaceId: 'garden', userId });
  const client = await on.connect(id, 'modern');
  const call = async (name: string, args: object) => {
    const { result } = await client.request('tools/call', { name, arguments: { session: 'current', ...args } });
    return result ?? {};
  };
  async function find(query: string): Promise<string[]> {
    const ask = async () => (await call('session_codebase_search', { query }))['structuredContent'] as Answer;
    await expect.poll(async () => (await ask()).index.state, { timeout: 30_000 }).toBe('ready');
    return (await ask()).matches.map(({ path }) => path);
  }
  return { id, call, find };
}
