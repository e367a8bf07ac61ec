import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createGateway, type EmbeddedGateway } from '../../src/index.ts';
import { taggedProcesses, until } from '../runners/tagged-processes.ts';
import { type RawClient, rawClient } from './raw-client.ts';

const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');
const eras = ['modern', 'handshake'] as const;
const serverOf = (era: string) => ({ command: process.execPath, args: [script], env: { MARK: 'done', ERA: era } });

let folder: string;
let gateway: EmbeddedGateway;
const open: RawClient[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-restrict-'));
});

afterEach(async () => {
  for (const client of open.splice(0)) await client.close();
  await gateway.close();
  rmSync(folder, { recursive: true, force: true });
});

async function start(era: string, more: Record<string, unknown> = {}): Promise<void> {
  gateway = await createGateway({
    config: {
      version: 1,
      sessions: { defaultTrust: 'direct' },
      servers: { keep: serverOf(era), drop: serverOf(era) },
      ...more,
    },
    dataDir: join(folder, 'data'),
    log: { info() {}, warn() {} },
  });
}

async function connect(id: string, era: (typeof eras)[number], server?: string): Promise<RawClient> {
  const client = await rawClient(gateway.connect(id, server), era);
  open.push(client);
  return client;
}

const processes = () => taggedProcesses(folder).length;
const left = (count: number) =>
  until(
    () => processes() === count,
    5000,
    () => `${processes()} processes, not ${count}`,
  );
const entries = () =>
  readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);

describe.each(eras)('in the %s era', (era) => {
  test('P14: calls to a server that goes are answered, its processes end, the lists change, the rest works on', async () => {
    await start(era);
    const { id } = gateway.createSession();
    const other = gateway.createSession();
    const [one, all] = [await connect(id, era, 'drop'), await connect(id, era)];
    const bystander = await connect(other.id, era);
    expect(await all.tools()).toEqual(expect.arrayContaining(['keep__mark', 'drop__mark']));
    expect(await bystander.call('drop__mark')).toBe('done');
    const slow = [one.call('slow', { ms: 60_000 }), all.call('drop__slow', { ms: 60_000 })];
    // Answered after the slow ones were taken in: they are under way.
    expect(await Promise.all([one.call('mark'), all.call('drop__mark'), all.call('keep__mark')])).toEqual(
      Array(3).fill('done'),
    );
    if (era === 'modern') {
      const listening = all.told('notifications/subscriptions/acknowledged');
      void all.request('subscriptions/listen', { notifications: { toolsListChanged: true } });
      await listening;
    }
    const running = processes();
    const changed = all.told('notifications/tools/list_changed');
    expect(gateway.restrictSession(id, { servers: ['keep'] })).toMatchObject({ id, servers: ['keep'] });
    for (const words of await Promise.all(slow))
      expect(words).toContain('SERVER_NOT_AVAILABLE: The session was restricted');
    await changed;
    await until(
      () => processes() < running,
      5000,
      () => 'no process has ended',
    );
    expect(await all.tools()).toEqual(['keep__mark', 'keep__slow', 'keep__crash']);
    expect(await all.call('keep__mark')).toBe('done');
    expect(await all.call('drop__mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await one.call('mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await bystander.call('drop__mark')).toBe('done');
  });

  test('P6: what was started as direct ends when the session is sandboxed, and nothing starts in its place', async () => {
    await start(era);
    const { id } = gateway.createSession();
    const [one, all] = [await connect(id, era, 'keep'), await connect(id, era)];
    const slow = [one.call('slow', { ms: 60_000 }), all.call('keep__slow', { ms: 60_000 })];
    await Promise.all([one.call('mark'), all.call('keep__mark')]);
    gateway.restrictSession(id, { trustLevel: 'sandboxed' });
    for (const words of await Promise.all(slow)) expect(words).toContain('UPSTREAM_FAILED: The session was restricted');
    await left(0);
    expect(await one.call('mark')).toContain('SANDBOX_UNAVAILABLE');
    expect(await all.call('keep__mark')).toContain('SANDBOX_UNAVAILABLE');
    expect(processes()).toBe(0);
  });

  test('while a process is just starting, it does not come to life outside the new bounds', async () => {
    await start(era);
    const { id } = gateway.createSession();
    const one = await connect(id, 'modern', 'keep');
    const calling = one.call('slow', { ms: 60_000 });
    await left(1);
    gateway.restrictSession(id, { servers: [] });
    expect(await calling).toContain('SERVER_NOT_AVAILABLE');
    await left(0);
  });

  test('P7: a reload that takes a server out of a workspace lets calls finish and takes no further ones', async () => {
    const workspaces = (servers: 'all' | string[]) => ({ w: { path: join(folder, 'w'), capabilities: { servers } } });
    await start(era, { workspaces: workspaces('all') });
    const { id } = gateway.createSession({ workspaceId: 'w' });
    const [one, all] = [await connect(id, era, 'drop'), await connect(id, era)];
    const slow = [one.call('slow', { ms: 300 }), all.call('drop__slow', { ms: 300 })];
    await Promise.all([one.call('mark'), all.call('drop__mark')]);
    const servers = { keep: serverOf(era), drop: serverOf(era) };
    await gateway.reload({ version: 1, servers, workspaces: workspaces(['keep']) });
    expect(await one.call('mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await all.call('drop__mark')).toContain('SERVER_NOT_AVAILABLE');
    expect(await Promise.all(slow)).toEqual(['done', 'done']);
    expect(await all.tools()).toEqual(['keep__mark', 'keep__slow', 'keep__crash']);
  });
});

test('the journal says what was restricted and by which rule a call was refused; the caller is not told', async () => {
  await start('modern', { workspaces: { w: { path: join(folder, 'w'), capabilities: { servers: ['keep'] } } } });
  const { id } = gateway.createSession({ workspaceId: 'w' });
  const answers: unknown[] = [];
  const tryOut = async (server: string) => {
    const { result } = await (await connect(id, 'modern', server)).request('tools/call', { name: 'x', arguments: {} });
    answers.push(JSON.stringify(result).replaceAll(server, 'NAME'));
  };
  await tryOut('drop');
  gateway.restrictSession(id, { servers: [], ttlSeconds: 60 });
  await tryOut('keep');
  await tryOut('nobody');
  expect(new Set(answers).size).toBe(1);
  expect(answers[0]).toContain('SERVER_NOT_AVAILABLE');
  expect(answers[0]).not.toContain('workspaces');
  await gateway.close();
  const rules = entries().filter(({ kind }) => kind === 'call');
  expect(rules.map(({ server, rule }) => [server, rule])).toEqual([
    ['drop', 'workspaces.w.capabilities.servers'],
    ['keep', 'session.servers'],
    ['nobody', undefined],
  ]);
  expect(entries().filter(({ event }) => event === 'restricted')).toMatchObject([
    { kind: 'session', sessionId: id, servers: '', ttlSeconds: 60 },
  ]);
});
