import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { hasBwrap } from '../needs/bwrap.ts';
import { recorder, type Whoami } from '../upstreams/links/scoped-gateway.ts';
import { createRawClient, type RawClient } from './raw-client.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-pattern-'));
const at = (...names: string[]) => join(folder, ...names);
const open: RawClient[] = [];
let gateway: EmbeddedGateway;

beforeAll(async () => {
  for (const name of ['src/shop', 'src/yard', 'src/own', 'outside']) mkdirSync(at(name), { recursive: true });
  writeFileSync(at('outside/secret'), 'secret');
  writeFileSync(at('src/own/here'), 'mine');
  gateway = await createGateway({
    dataDir: at('data'),
    log: { info() {}, warn() {} },
    config: {
      version: 1,
      store: { kind: 'memory' },
      sessions: { defaultTrust: 'direct', allowDirect: 'always' },
      servers: { it: recorder('session', 'modern') },
      workspaces: {
        'src-*': { path: at('src/*'), env: { it: { AMBIENT: 'of the pattern' } } },
        'copy-*': { path: at('src/*'), isolation: 'copy', capabilities: { servers: 'none' } },
      },
    },
  });
});
afterAll(async () => {
  for (const client of open) await client.close();
  await gateway?.close();
  rmSync(folder, { recursive: true, force: true });
});

async function connect(
  workspaceId?: string,
  more: { trustLevel?: 'sandboxed'; meta?: object } = {},
): Promise<RawClient> {
  const { meta = {}, ...draft } = more;
  const { id } = await gateway.createSession({ ...draft, ...(workspaceId === undefined ? {} : { workspaceId }) });
  const client = await createRawClient(gateway.connect(id, '*'), 'modern', { meta });
  open.push(client);
  return client;
}

test('servers and file tools work in the folder, with the settings of the pattern', async () => {
  const client = await connect('src-shop');
  const { cwd, told } = JSON.parse(await client.call('it__whoami')) as Whoami;
  expect([cwd, told['AMBIT_WORKSPACE_ID'], told['AMBIT_WORKSPACE_PATH']]).toEqual([
    at('src/shop'),
    'src-shop',
    at('src/shop'),
  ]);
  await client.call('session_edit_file', { path: 'a', content: 'x' });
  expect(readFileSync(at('src/shop/a'), 'utf8')).toBe('x');
  const own = await connect('copy-own');
  expect(await own.call('session_read_file', { path: 'here' })).toContain('mine');
  expect(await own.tools()).toEqual([]);
});

test('O1: a client announces a folder that was made after the start, by slug or path', async () => {
  mkdirSync(at('src/later'));
  for (const workspace of ['src-later', at('src/later')]) {
    const client = await connect(undefined, { meta: { ambit: { workspace } } });
    expect((JSON.parse(await client.call('it__whoami')) as Whoami).cwd).toBe(at('src/later'));
  }
  const wrong = await connect(undefined, { meta: { ambit: { workspace: 'src-shp' } } });
  expect(await wrong.call('session_list_dir')).toMatch(/^WORKSPACE_NOT_FOUND: .*"src-shop"/);
});

test('W3: a link is no workspace, nor what becomes one: neither files nor servers follow it', async () => {
  symlinkSync(at('outside'), at('src/link'));
  await expect(gateway.createSession({ workspaceId: 'src-link' })).rejects.toMatchObject({
    code: 'WORKSPACE_NOT_FOUND',
  });
  const [before, fresh, copied] = [await connect('src-yard'), await connect('src-yard'), await connect('copy-yard')];
  await before.call('it__whoami');
  expect(await before.call('session_list_dir')).not.toContain('ERROR');
  renameSync(at('src/yard'), at('yard'));
  symlinkSync(at('outside'), at('src/yard'));
  for (const client of [before, fresh, copied]) {
    const said = await client.call('session_read_file', { path: 'secret' });
    expect(said).toBe(
      'WORKSPACE_NOT_FOUND: The workspace of the session does not exist. Use a session in another workspace, or ask the operator.',
    );
    expect(await client.call('it__whoami')).toContain('SERVER_NOT_AVAILABLE');
  }
  rmSync(at('src/yard'));
  expect(await fresh.call('it__whoami')).toContain('SERVER_NOT_AVAILABLE');
  renameSync(at('yard'), at('src/yard'));
  expect((JSON.parse(await fresh.call('it__whoami')) as Whoami).cwd).toBe(at('src/yard'));
});

test.skipIf(!hasBwrap())('a sandboxed server works in the folder too', async () => {
  const client = await connect('src-shop', { trustLevel: 'sandboxed' });
  expect(JSON.parse(await client.call('it__whoami'))).toMatchObject({
    cwd: at('src/shop'),
    told: { AMBIT_TRUST_LEVEL: 'sandboxed' },
  });
});

test('a key can be limited to such a workspace', async () => {
  await gateway.people.users.add('ada');
  const { view } = await gateway.people.keys.create({ userId: 'ada', workspaces: ['src-shop'] });
  expect(view.workspaces).toEqual(['src-shop']);
  for (const name of ['src-link', 'src-*', 'src-..', 'src-none'])
    await expect(gateway.people.keys.create({ userId: 'ada', workspaces: [name] })).rejects.toMatchObject({
      code: 'WORKSPACE_NOT_FOUND',
    });
});
