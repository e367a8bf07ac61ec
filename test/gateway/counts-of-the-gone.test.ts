import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import { callModern, readOutcome } from '../journeys/json-mcp-client.ts';
import { createSharedData } from './shared-data.ts';

const data = createSharedData();

test('what a session wrote is known after a restart, though others left theirs behind', async () => {
  const garden = join(data.folder, 'garden');
  mkdirSync(garden);
  const config = { workspaces: { garden: { path: garden, files: { sessionBytes: 100 } } } };
  const open = () => openSqliteStore({ file: join(data.folder, 'sessions.db'), documentLimits: { documents: 1 } });
  const serve = async () => data.serve(config, { store: await open() });
  const write = async (own: Awaited<ReturnType<typeof serve>>, token: string, bytes: number) => {
    const args = { session: 'current', path: `f-${bytes}.txt`, content: 'x'.repeat(bytes) };
    return readOutcome(await callModern(own.mcp(), token, 'session_edit_file', args));
  };

  const first = await serve();
  const gone = await first.open({ workspaceId: 'garden' });
  expect(await write(first, gone.token, 60)).toContain('Created');
  await first.close();
  // While no gateway is there to hear of it.
  const store = await open();
  expect(await store.documents.get('files-written', gone.id)).toBeDefined();
  await store.end(gone.id);
  await store.close();

  const second = await serve();
  const { token } = await second.open({ workspaceId: 'garden' });
  expect(await write(second, token, 61)).toContain('Created');
  await second.close();
  const third = await serve();
  expect(await write(third, token, 40)).toContain('WORKSPACE_FULL');
  expect(await write(third, token, 39)).toContain('Created');
});
