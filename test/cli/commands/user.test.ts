import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { KeyView } from '../../../src/identity/key-record.ts';
import type { TeamView, UserView } from '../../../src/identity/users.ts';
import { ambitInProcess, onlyStoreNote, openControlledGateway } from '../in-process.ts';

let folder: string;
let places: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-people-'));
  const file = join(folder, 'ambit.yaml');
  writeFileSync(
    file,
    `version: 1
workspaces: { shop: { path: ${join(folder, 'shop')}, create: true } }
governance: { organisation: Acme, teams: [core], users: [{ name: boss, teams: [core] }] }
`,
  );
  places = ['--config', file, '--data-dir', join(folder, 'data')];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const ambit = (...words: string[]) => ambitInProcess([...words, ...places]);
async function readJson<T>(...words: string[]): Promise<T> {
  const { code, stdout, stderr } = await ambit(...words, '--json');
  expect({ code, stderr }).toEqual({ code: 0, stderr: onlyStoreNote });
  return JSON.parse(stdout) as T;
}

async function testUserLifecycle(): Promise<void> {
  expect(await readJson('user', 'add', 'ada', '--team', 'core', '--team', 'ops')).toMatchObject({
    teams: ['core', 'ops'],
  });
  expect(await readJson<UserView>('user', 'remove', 'ada', '--team', 'core')).toMatchObject({ teams: ['ops'] });
  const listed = await readJson<{ organisation: string; users: UserView[] }>('user', 'list');
  expect(listed).toMatchObject({
    organisation: 'Acme',
    users: [
      { name: 'ada', teams: ['ops'], declared: false },
      { name: 'boss', teams: ['core'], declared: true },
    ],
  });
  const { teams } = await readJson<{ teams: TeamView[] }>('team', 'list');
  expect(teams.map(({ name, members }) => [name, members])).toEqual([
    ['core', ['boss']],
    ['ops', ['ada']],
  ]);
  const create = 'key create --user ada --expires 30d --trust sandboxed --workspace shop';
  const created = await ambit(...create.split(' '));
  const made = JSON.parse(created.stdout) as { id: string; key: string };
  expect(Object.keys(made)).toEqual(['id', 'key']);
  expect(made.key).toMatch(new RegExp(`^ambk_${made.id}_[0-9A-Za-z]{49}$`));
  const turned = await readJson<{ id: string; key: string }>('key', 'rotate', made.id.slice(0, 8), '--overlap', '24h');
  expect(turned.id).toBe(made.id);
  expect(turned.key).not.toBe(made.key);
  const { keys } = await readJson<{ keys: KeyView[] }>('key', 'list', '--user', 'ada');
  expect(keys).toMatchObject([{ id: made.id, state: 'active', trustLevel: 'sandboxed', workspaces: ['shop'] }]);
  expect(Date.parse(keys[0]?.previousUntil ?? '') - Date.now()).toBeGreaterThan(86_000_000);
  expect(Date.parse(keys[0]?.expiresAt ?? '') - Date.now()).toBeGreaterThan(29 * 86_400_000);
  expect((await ambit('key', 'list')).stdout).toMatch(/ada +active +sandboxed +shop +never/);
  expect(await readJson('key', 'revoke', made.id)).toMatchObject({ state: 'revoked', sessions: 0 });
  expect(await ambit('key', 'rotate', made.id)).toMatchObject({ code: 1, stdout: '' });
  expect(await readJson('user', 'remove', 'ada')).toMatchObject({ removed: true });
  expect((await readJson<{ users: UserView[] }>('user', 'list')).users).toHaveLength(1);
}

test('without a gateway they work on the store itself, and write the journal', async () => {
  await testUserLifecycle();
  const journal = readFileSync(join(folder, 'data/journal/journal.jsonl'), 'utf8');
  for (const event of ['user-added', 'user-changed', 'key-created', 'key-rotated', 'key-revoked', 'user-removed']) {
    expect(journal).toContain(`"event":"${event}"`);
  }
  expect(journal).not.toMatch(/ambk_|[0-9a-f]{64}/);
});

test('with a gateway they ask it', async () => {
  // Its store is in its memory: without asking it, nothing would be there.
  const gateway = await openControlledGateway(places[1] as string, places[3] as string, { store: { kind: 'memory' } });
  await testUserLifecycle().finally(gateway.close);
});

test.each([
  [['user', 'add'], 2, 'NAME'],
  [['user', 'add', 'a b'], 1, 'REQUEST_INVALID'],
  [['user', 'add', 'anonymous'], 1, 'REQUEST_INVALID'],
  [['user', 'add', 'boss', '--team', 'ops'], 1, 'declared in the configuration'],
  [['user', 'remove', 'boss'], 1, 'declared in the configuration'],
  [['user', 'remove', 'nobody'], 1, 'USER_NOT_FOUND'],
  [['key', 'create'], 2, '--user'],
  [['key', 'create', '--user', 'nobody'], 1, 'USER_NOT_FOUND'],
  [['key', 'create', '--user', 'boss', '--workspace', 'shopp'], 1, 'did you mean "shop"'],
  [['key', 'create', '--user', 'boss', '--trust', 'root'], 2, '--trust takes "direct" or "sandboxed"'],
  [['key', 'create', '--user', 'boss', '--scope', 'A B'], 1, 'REQUEST_INVALID'],
  [['key', 'create', '--user', 'boss', '--expires', 'soon'], 2, 'such as 12h or 30d, or a date such as 20'],
  [['key', 'create', '--user', 'boss', '--expires', '0d'], 2, '--expires'],
  [['key', 'create', '--user', 'boss', '--expires', '2001-01-01'], 2, 'not a date in the future'],
  [['key', 'create', '--user', 'boss', '--expires', '99y'], 1, 'ten years'],
  [['key', 'revoke', 'nothing-like-it'], 1, 'KEY_NOT_FOUND'],
  [['key', 'rotate', 'abc'], 1, 'KEY_NOT_FOUND'],
])('%j is refused', async (words, code, says) => {
  expect(await ambit(...words)).toMatchObject({ code, stdout: '', stderr: expect.stringContaining(says) });
});

test('a user of the configuration has keys like any other', async () => {
  const { key } = await readJson<{ key: string }>('key', 'create', '--user', 'boss', '--expires', '9d');
  expect(key).toMatch(/^ambk_/);
});
