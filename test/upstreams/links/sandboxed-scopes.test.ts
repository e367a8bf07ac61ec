import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { until } from '../../sandbox/tagged-processes.ts';
import { keptGateway, recorder, whoami } from './scoped-gateway.ts';

const sandboxed = { trustLevel: 'sandboxed' } as const;

const scopes = ['call', 'session', 'user', 'workspace', 'shared'] as const;
const kept = keptGateway({
  servers: Object.fromEntries(
    scopes.flatMap((scope) => [scope, `several-${scope}`].map((name) => [name, recorder(scope, 'modern')])),
  ),
});

describe.skipIf(!hasBwrap())('processes of sandboxed sessions, by scope', () => {
  beforeAll(() => {
    for (const name of ['one', 'two', 'low']) {
      writeFileSync(join(kept().folder, name, 'note'), `note of ${name}`);
      mkdirSync(join(kept().folder, name, '.git', 'hooks'), { recursive: true });
    }
  });

  test.each([
    ['call', ['one']],
    ['session', ['one']],
    ['user', ['one']],
    ['workspace', ['one']],
    ['shared', []],
  ] as const)('P8: at scope %s a process sees these workspaces: %j', async (scope, seen) => {
    const on = kept();
    const session = await on.open({ userId: 'ann', workspaceId: 'one', ...sandboxed });
    const client = await on.connect(session, scope, 'modern');
    for (const name of ['one', 'two', 'low']) {
      const path = join(on.folder, name);
      const isSeen = (seen as readonly string[]).includes(name);
      const read = await client.call('read', { path: join(path, 'note') });
      expect(read).toBe(isSeen ? `note of ${name}` : 'ENOENT');
      const written = await client.call('write', { path: join(path, 'made'), content: 'x' });
      expect(written, name).toBe(isSeen ? 'written' : 'ENOENT');
      expect(existsSync(join(path, 'made'))).toBe(isSeen);
      const hook = await client.call('write', { path: join(path, '.git/hooks/post-commit'), content: 'x' });
      expect(hook).toBe(isSeen ? 'EROFS' : 'ENOENT');
      rmSync(join(path, 'made'), { force: true });
    }
    const { told } = await whoami(client);
    const path = told['AMBIT_WORKSPACE_PATH'];
    expect(path).toBe(seen.length === 0 ? undefined : join(on.folder, 'one'));
  });

  test.each([
    ['user', 3],
    ['workspace', 2],
    ['shared', 1],
  ] as const)(
    'P8: at scope %s these sessions have %i sandboxes, and the direct one is in none',
    async (scope, boxes) => {
      const on = kept();
      const server = `several-${scope}`;
      const drafts = [
        { userId: 'ann', workspaceId: 'one', ...sandboxed },
        { userId: 'ann', workspaceId: 'one', trustLevel: 'direct' },
        { userId: 'bob', workspaceId: 'one', ...sandboxed },
        { userId: 'ann', workspaceId: 'two', ...sandboxed },
      ] as const;
      for (const draft of drafts) {
        const { told } = await whoami(await on.connect(await on.open(draft), server, 'modern'));
        expect(told['AMBIT_TRUST_LEVEL']).toBe(scope === 'shared' ? undefined : draft.trustLevel);
      }
      const started = () => on.journal().filter((entry) => entry['event'] === 'started' && entry['server'] === server);
      await until(
        () => started().length > boxes,
        50_000,
        () => 'not all were recorded',
      );
      const runners = started().map(({ runner }) => runner);
      expect(runners.sort()).toEqual([...Array<string>(boxes).fill('bwrap'), 'plain']);
    },
  );
});
