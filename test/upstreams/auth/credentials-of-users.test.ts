import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { defineServer } from '../../gateway/bounded-gateway.ts';
import { taggedProcesses, until } from '../../sandbox/tagged-processes.ts';
import { credentialGateways, secret } from './credential-gateway.ts';

const on = credentialGateways();

describe('in the environment of a process', () => {
  test.each(['modern', 'handshake'] as const)(
    'L10: each user has their own, over what is configured (%s)',
    async (era) => {
      const gateway = await on.start({ notes: defineServer(era) });
      await gateway.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
      const [ada, eve] = [
        await on.clientOf(gateway, 'ada', 'notes', era),
        await on.clientOf(gateway, 'eve', 'notes', era),
      ];
      expect(await ada.call('mark')).toBe(secret);
      expect(await eve.call('mark')).toBe('done');
      // A change ends what carries the old one, calls under way included, and nothing of anybody else.
      const [slow, hers] = [ada.call('slow', { ms: 60_000 }), eve.call('slow', { ms: 400 })];
      expect(await ada.call('mark')).toBe(secret);
      await gateway.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, 'second');
      expect(await slow).toContain('UPSTREAM_FAILED: A credential for the server "notes" was changed');
      expect(await ada.call('mark')).toBe('second');
      expect(await hers).toBe('done');
      expect(await gateway.credentials.remove({ userId: 'ada', server: 'notes', env: 'MARK' })).toBe(true);
      expect(await ada.call('mark')).toBe('done');
    },
  );

  test('a gateway elsewhere on the same store follows within a second', async () => {
    const [here, there] = [
      await on.start({ notes: defineServer('modern') }),
      await on.start({ notes: defineServer('modern') }),
    ];
    const ada = await on.clientOf(there, 'ada', 'notes');
    expect(await ada.call('mark')).toBe('done');
    const slow = ada.call('slow', { ms: 60_000 });
    await here.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
    expect(await slow).toContain('UPSTREAM_FAILED');
    expect(await ada.call('mark')).toBe(secret);
    await here.credentials.remove({ userId: 'ada', server: 'notes', env: 'MARK' });
    await until(
      () => taggedProcesses(on.folder).length === 0,
      5000,
      () => 'it has not ended',
    );
    expect(await ada.call('mark')).toBe('done');
  });

  test('a process of one user has it in all their sessions; one of several users never', async () => {
    const wide = { ...defineServer('modern'), contextAware: true };
    const own = await on.start({ notes: { ...wide, scope: 'user' } });
    await own.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
    const [one, two, eve] = [
      await on.clientOf(own, 'ada', 'notes'),
      await on.clientOf(own, 'ada', 'notes'),
      await on.clientOf(own, 'eve', 'notes'),
    ];
    expect(await Promise.all([one, two, eve].map((each) => each.call('mark')))).toEqual([secret, secret, 'done']);
    expect(taggedProcesses(on.folder)).toHaveLength(2);
    await own.credentials.remove({ userId: 'ada', server: 'notes', env: 'MARK' });
    await until(
      () => taggedProcesses(on.folder).length === 1,
      5000,
      () => 'it has not ended',
    );
    await own.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
    // The same credential, when the operator lets several users share the process.
    const shared = await on.start({ notes: { ...wide, scope: 'shared' } });
    const client = await on.clientOf(shared, 'ada', 'notes');
    expect(await client.call('mark')).toBe('done');
    await expect(shared.credentials.set({ userId: 'ada', server: 'notes', env: 'X' }, 'y')).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
    });
  });

  test('an agent SDK is handed a wrapped command and no value; nothing else shows it either', async () => {
    const gateway = await on.start({ notes: defineServer('modern'), plain: defineServer('modern') });
    await gateway.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
    const ada = await on.clientOf(gateway, 'ada');
    const { mcpServers, servers } = await gateway.resolve(ada.session.id);
    const { args, env } = mcpServers['notes'] as Extract<(typeof mcpServers)[string], { readonly command: string }>;
    expect(args).toContain('run');
    expect(args).not.toContain('MARK');
    expect(env).not.toHaveProperty('MARK');
    expect(servers[0]).toMatchObject({ name: 'notes', env: { MARK: 'credential', ERA: 'configured' } });
    expect(mcpServers['plain']).toMatchObject({ command: process.execPath, env: { MARK: 'done' } });
    expect(await ada.call('notes__crash')).toContain('UPSTREAM_FAILED');
    expect(await ada.call('notes__mark')).toBe(secret);
    const shown = JSON.stringify([mcpServers, servers, gateway.credentials.list(), on.lines]);
    expect(shown).not.toContain(secret);
    await gateway.close();
    for (const entry of readdirSync(join(on.folder, 'data'), { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue;
      expect(readFileSync(join(entry.parentPath, entry.name)).includes(secret), entry.name).toBe(false);
    }
    const journal = readFileSync(join(on.folder, 'data/journal/journal.jsonl'), 'utf8');
    expect(journal).toContain('"event":"credential-set","userId":"ada","server":"notes","name":"MARK"');
  });

  test('one that cannot be opened starts nothing, and says so without saying it', async () => {
    const first = await on.start({ notes: defineServer('modern') });
    await first.credentials.set({ userId: 'ada', server: 'notes', env: 'MARK' }, secret);
    await first.close();
    rmSync(join(on.folder, 'data/keys/credentials.key'));
    const gateway = await on.start({ notes: defineServer('modern') });
    const [ada, eve] = [await on.clientOf(gateway, 'ada', 'notes'), await on.clientOf(gateway, 'eve', 'notes')];
    expect(await ada.call('mark')).toContain('CREDENTIAL_UNUSABLE: The credential MARK for the server "notes"');
    expect(await eve.call('mark')).toBe('done');
    expect(gateway.credentials.list()).toMatchObject([{ userId: 'ada', usable: false }]);
  });

  test('a name that has become one of Ambit’s own is not given', async () => {
    const first = await on.start({ notes: defineServer('modern') });
    await first.credentials.set({ userId: 'ada', server: 'notes', env: 'ORBIT_USER_ID' }, 'eve');
    await first.close();
    const gateway = await on.start({ notes: defineServer('modern') }, { context: { envPrefixes: ['AMBIT', 'ORBIT'] } });
    const ada = await on.clientOf(gateway, 'ada', 'notes');
    expect(await ada.call('mark')).toContain('CREDENTIAL_UNUSABLE');
    expect(taggedProcesses(on.folder)).toHaveLength(0);
  });
});
