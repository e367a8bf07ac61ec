import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway, type SessionDraft } from '../../../src/index.ts';
import { startRepeater } from '../../fixtures/start-repeater.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { proof } from '../../proof.ts';
import { callModern, sendModern } from '../raw-mcp-client.ts';
import { ambitBin, repository } from '../start-ambit.ts';

// A server that makes its tools from its workspace shows them to whoever stands there, and to nobody else.

const repeats = {
  command: process.execPath,
  args: [join(repository, 'test/fixtures/hostile/repeats-on-stdio.js')],
};
let folder: string;
let dataDir: string;
let configFile: string;
let remote: Awaited<ReturnType<typeof startRepeater>>;
let gateway: EmbeddedGateway;
let url: string;

function config(workspaces: readonly string[] = ['garden', 'kitchen', 'apart']) {
  const paths = Object.fromEntries(workspaces.map((name) => [name, { path: join(folder, name) }]));
  return {
    version: 1,
    sessions: { allowDirect: 'always' },
    servers: {
      repeats,
      open: { ...repeats, catalog: 'shared' },
      remote: { url: remote.url, context: 'full', trust: ['direct', 'sandboxed'] },
    },
    workspaces: 'apart' in paths ? { ...paths, apart: { ...paths['apart'], isolation: 'copy' } } : paths,
  } as const;
}

beforeEach(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-tenants-')));
  dataDir = join(folder, 'data');
  configFile = join(folder, 'etc', 'ambit.yaml');
  mkdirSync(join(folder, 'etc'));
  for (const name of ['garden', 'kitchen', 'apart']) {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, `file-of-${name}.txt`), `text of the ${name}`);
  }
  remote = await startRepeater();
  writeFileSync(configFile, JSON.stringify(config()));
  await start();
});

afterEach(async () => {
  await gateway.close();
  await remote.stop();
  rmSync(folder, { recursive: true, force: true });
});

async function start(): Promise<void> {
  gateway = await createGateway({ config: configFile, dataDir, log: { info() {}, warn() {} } });
  ({ url } = await gateway.listen({ port: 0 }));
}

const everything = ['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list', 'server/discover'];

/** Reads the list of a session at an address, as it came. */
async function shown(token: string, address = '/mcp'): Promise<string> {
  const methods = proof ? everything : ['tools/list', 'resources/templates/list'];
  const lists: string[] = [];
  for (const method of methods) lists.push(...(await (await sendModern(url + address, token, { method })).rest()));
  return lists.join('\n');
}

function open(draft: SessionDraft) {
  return gateway.createSession({ trustLevel: 'direct', servers: ['repeats', 'remote'], ...draft });
}

/** Starts the session's process, and puts a file where it works. */
async function plant({ id, token }: { id: string; token: string }, mark: string): Promise<void> {
  await (await callModern(`${url}/mcp/repeats`, token, 'say', '{}')).rest();
  const { mcpServers } = await gateway.resolve(id);
  const { env } = mcpServers['repeats'] as { env: Record<string, string> };
  const at = env['AMBIT_WORKSPACE_PATH'] || join(dataDir, 'run', id);
  writeFileSync(join(at, `${mark}.txt`), `${mark} wrote this`);
}

const kept = () =>
  existsSync(join(dataDir, 'catalog.json')) ? readFileSync(join(dataDir, 'catalog.json'), 'utf8') : '';

test('S2: lists made of one tenant’s files, names and credentials are shown to that tenant alone', async () => {
  await gateway.credentials.set({ userId: 'ada', server: 'repeats', env: 'SECRET' }, 'secret-of-ada');
  await gateway.credentials.set({ userId: 'ada', server: 'remote', header: 'x-secret' }, 'header-of-ada');
  const boxed = hasBwrap() ? [{ userId: 'cleo', workspaceId: 'garden', trustLevel: 'sandboxed' } as const] : [];
  const drafts: SessionDraft[] = [
    { userId: 'ada', workspaceId: 'garden' },
    { userId: 'bea', workspaceId: 'garden' },
    { userId: 'ada', workspaceId: 'kitchen' },
    { userId: 'cleo', workspaceId: 'garden' },
    ...boxed,
    { userId: 'dora', workspaceId: 'apart' },
    { userId: 'dora', workspaceId: 'apart' },
    { userId: 'eve' },
    { userId: 'eve' },
  ];
  const sessions = await Promise.all(drafts.map(open));
  const alone = sessions.filter(({ workspaceId }) => workspaceId === 'apart' || workspaceId === null);
  await Promise.all(alone.map((session) => plant(session, `mark-${session.id}`)));
  // Whoever is first fills the catalog; then all of them ask again.
  for (const session of sessions) await shown(session.token);
  for (const session of sessions) {
    const { id, token, userId, workspaceId, trustLevel } = session;
    for (const address of proof ? ['/mcp', '/mcp/repeats', '/mcp/remote'] : ['/mcp']) {
      const text = await shown(token, address);
      const who = `${userId} in ${workspaceId}, ${trustLevel}, at ${address}`;
      // The names a description may hold: escaped once as text of a list, and once more as JSON inside it.
      const users = new Set(
        [...text.matchAll(/AMBIT_USER_ID[\\":]+(\w+)|{[\\"]+userId[\\":]+(\w+)[^}]*trustLevel/g)].map(
          ([, a, b]) => a ?? b,
        ),
      );
      const trusts = new Set(
        [...text.matchAll(/AMBIT_TRUST_LEVEL[\\":]+(\w+)|{[\\"]+userId[^}]*trustLevel[\\":]+(\w+)/g)].map(
          ([, a, b]) => a ?? b,
        ),
      );
      expect([...users], who).toEqual([userId]);
      expect([...trusts], who).toEqual([trustLevel]);
      for (const name of ['garden', 'kitchen', 'apart']) {
        expect(text.includes(`file-of-${name}`), `${name}: ${who}`).toBe(name === workspaceId);
      }
      expect(text.includes('secret-of-ada') || text.includes('header-of-ada'), who).toBe(userId === 'ada');
      // A server over HTTP is told of the folder of a workspace, and of no other.
      const isMarked = alone.includes(session) && (workspaceId !== null || address !== '/mcp/remote');
      const marks = new Set([...text.matchAll(/mark-([0-9a-z-]{32})/g)].map(([, mark]) => mark));
      expect([...marks], who).toEqual(isMarked ? [id] : []);
    }
  }
  await gateway.close();
  // What is in the file is what may outlive a session: lists of workspaces, and none that hold a credential.
  const written = kept();
  expect(written).toContain('file-of-garden');
  expect(written).not.toMatch(/mark-|-of-ada|file-of-(?:apart|kitchen)/);
});

test('S2: a list goes with its user, its workspace, or the last session of a user nobody added', async () => {
  await gateway.people.users.add('bea');
  const guest = await open({ userId: 'guest', workspaceId: 'garden' });
  const other = await open({ userId: 'guest', workspaceId: 'garden' });
  const bea = await open({ userId: 'bea', workspaceId: 'garden' });
  const local = await open({ userId: 'local', workspaceId: 'kitchen' });
  for (const { token } of [guest, bea, local]) await shown(token);
  await gateway.endSession(guest.id);
  await gateway.endSession(bea.id);
  await restart();
  expect(owners()).toEqual(['bea', 'guest', 'local']);
  await gateway.endSession(other.id);
  await restart();
  expect(owners()).toEqual(['bea', 'local']);
  expect(kept()).not.toContain('guest');
  await gateway.people.users.remove('bea');
  writeFileSync(configFile, JSON.stringify(config(['garden'])));
  await gateway.reload(configFile);
  await restart();
  expect(kept()).toBe('[]');
});

test('S2: a list that a server made with a credential goes with the credential', async () => {
  const { token } = await open({ userId: 'ada', workspaceId: 'garden' });
  const which = { userId: 'ada', server: 'remote', header: 'x-secret' };
  await gateway.credentials.set(which, 'header-of-ada');
  expect(await shown(token)).toContain('header-of-ada');
  await gateway.credentials.remove(which);
  expect(await shown(token)).not.toContain('header-of-ada');
});

test.runIf(proof)(
  'S2: ambit stdio is shown what the local user may see, and brings nothing back that was removed',
  async () => {
    const guest = await open({ userId: 'guest', workspaceId: 'garden' });
    await shown(guest.token);
    await restart();
    expect(owners()).toEqual(['guest']);
    const stdio = spawn(
      process.execPath,
      [ambitBin, 'stdio', '--workspace', 'garden', '--trust', 'direct', '--config', configFile, '--data-dir', dataDir],
      { stdio: ['pipe', 'pipe', 'ignore'] },
    );
    const lines = createInterface({ input: stdio.stdout });
    const ask = async (id: number, method: string, params: object) => {
      stdio.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
      for (;;) {
        const [line] = (await once(lines, 'line')) as [string];
        if ((JSON.parse(line) as { id?: number }).id === id) return line;
      }
    };
    const client = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    await ask(1, 'initialize', client);
    await gateway.endSession(guest.id);
    const text = await ask(2, 'tools/list', {});
    expect(text).toMatch(/USER_ID[\\":]+local/);
    expect(text).not.toContain('guest');
    stdio.stdin.end();
    await once(stdio, 'exit');
    await restart();
    expect(owners()).toEqual(['local']);
  },
);

test('S2: a shared catalog reaches across users and workspaces, and across nothing else', async () => {
  const servers = ['repeats', 'open'];
  await gateway.credentials.set({ userId: 'cleo', server: 'open', env: 'SECRET' }, 'secret-of-cleo');
  const first = await shown((await open({ servers, userId: 'ada', workspaceId: 'garden' })).token, '/mcp');
  expect(first).toContain('open__read_file-of-garden');
  const bea = await shown((await open({ servers, userId: 'bea', workspaceId: 'kitchen' })).token);
  expect(bea).toContain('open__read_file-of-garden');
  expect(bea).not.toContain('repeats__read_file-of-garden');
  const cleo = await shown((await open({ servers, userId: 'cleo', workspaceId: 'kitchen' })).token);
  expect(cleo).not.toContain('open__read_file-of-garden');
  expect(cleo).toContain('secret-of-cleo');
  expect(await shown((await open({ servers, userId: 'bea', workspaceId: 'kitchen' })).token)).not.toContain(
    'secret-of-cleo',
  );
  if (!hasBwrap()) return;
  const boxed = await open({ servers, userId: 'bea', workspaceId: 'kitchen', trustLevel: 'sandboxed' });
  const inside = await shown(boxed.token);
  expect(inside).not.toContain('file-of-garden');
  expect(inside).toContain('open__read_file-of-kitchen');
});

function owners(): string[] {
  const entries = JSON.parse(kept() || '[]') as [string, { owner: { userId: string } }][];
  return [...new Set(entries.map(([, { owner }]) => owner.userId))].filter((user) => user !== '').sort();
}

/** Reads the journal once everything is written. */
async function restart(): Promise<void> {
  await gateway.close();
  await start();
}
