import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestGateway } from '../../../src/public/testing/index.ts';
import { createRawClient, type RawClient } from '../../gateway/raw-client.ts';

const packageFolder = (name: string) =>
  dirname(createRequire(import.meta.url).resolve(`@modelcontextprotocol/${name}/package.json`));
const folder = mkdtempSync(join(tmpdir(), 'ambit-ignorant-'));
const workspace = join(folder, 'garden');
let gateway: Awaited<ReturnType<typeof createTestGateway>>;
let id: string;
const clients: RawClient[] = [];

beforeAll(async () => {
  mkdirSync(workspace);
  writeFileSync(join(workspace, 'note.txt'), 'a note');
  const node = process.execPath;
  gateway = await createTestGateway({
    servers: {
      everything: { command: node, args: [join(packageFolder('server-everything'), 'dist/index.js'), 'stdio'] },
      files: { command: node, args: [join(packageFolder('server-filesystem'), 'dist/index.js'), workspace] },
    },
    workspaces: { garden: { path: workspace } },
  });
  ({ id } = await gateway.createSession({ userId: 'ada', agentId: 'coder', workspaceId: 'garden' }));
});

afterAll(async () => {
  for (const client of clients) await client.close();
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

test.each(['modern', 'handshake'] as const)(
  'P9: servers that know nothing of Ambit work as before, for a client of the %s era',
  async (era) => {
    const connect = async (server?: string) => {
      const client = await createRawClient(gateway.connect(id, server), era);
      clients.push(client);
      return client;
    };
    const [everything, files, all] = [await connect('everything'), await connect('files'), await connect()];
    expect(await everything.tools()).toContain('echo');
    expect(await everything.call('echo', { message: 'é' })).toBe('Echo: é');
    expect(await everything.call('get-sum', { a: 1, b: 2 })).toContain('3');
    expect(await files.call('read_text_file', { path: join(workspace, 'note.txt') })).toBe('a note');
    expect(await all.call('files__read_text_file', { path: join(workspace, 'note.txt') })).toBe('a note');
    expect((await everything.request('resources/list')).result).toHaveProperty('resources');
    expect((await everything.request('prompts/get', { name: 'simple-prompt' })).result).toHaveProperty('messages');
  },
);
