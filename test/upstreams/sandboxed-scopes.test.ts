import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { repository } from '../house/source-files.ts';
import { hasBwrap } from '../needs/bwrap.ts';
import { until } from '../runners/tagged-processes.ts';
import { freshGateway, recorder, whoami } from './scoped-gateway.ts';

const start = freshGateway();
const sandboxed = { trustLevel: 'sandboxed' } as const;
const filesServer = join(repository, 'node_modules/@modelcontextprotocol/server-filesystem/dist/index.js');

describe.skipIf(!hasBwrap())('processes of sandboxed sessions, by scope', () => {
  test.each([
    ['call', ['one']],
    ['session', ['one']],
    ['user', ['one']],
    ['workspace', ['one']],
    ['shared', []],
  ] as const)('P8: at scope %s a process sees these workspaces: %j', async (scope, seen) => {
    const files = { command: process.execPath, args: [filesServer, '/'], scope, contextAware: true };
    const on = await start({ servers: { it: recorder(scope, 'modern'), files } });
    for (const name of ['one', 'two', 'low']) {
      writeFileSync(join(on.folder, name, 'note'), `note of ${name}`);
      mkdirSync(join(on.folder, name, '.git', 'hooks'), { recursive: true });
    }
    const session = await on.open({ userId: 'ann', workspaceId: 'one', ...sandboxed });
    const client = await on.connect(session, 'files', 'modern');
    for (const name of ['one', 'two', 'low']) {
      const path = join(on.folder, name);
      const isSeen = (seen as readonly string[]).includes(name);
      const read = await client.call('read_text_file', { path: join(path, 'note') });
      expect(read.includes(`note of ${name}`), name).toBe(isSeen);
      const written = await client.call('write_file', { path: join(path, 'made'), content: 'x' });
      expect(written.includes('Successfully'), name).toBe(isSeen);
      const hook = await client.call('write_file', { path: join(path, '.git/hooks/post-commit'), content: 'x' });
      expect(hook).not.toContain('Successfully');
    }
    const { told } = await whoami(await on.connect(session, 'it', 'modern'));
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
      const on = await start({ servers: { it: recorder(scope, 'modern') } });
      const drafts = [
        { userId: 'ann', workspaceId: 'one', ...sandboxed },
        { userId: 'ann', workspaceId: 'one', trustLevel: 'direct' },
        { userId: 'bob', workspaceId: 'one', ...sandboxed },
        { userId: 'ann', workspaceId: 'two', ...sandboxed },
      ] as const;
      for (const draft of drafts) {
        const { told } = await whoami(await on.connect(await on.open(draft), 'it', 'modern'));
        expect(told['AMBIT_TRUST_LEVEL']).toBe(scope === 'shared' ? undefined : draft.trustLevel);
      }
      const started = () => on.journal().filter(({ event }) => event === 'started');
      await until(
        () => started().length > boxes,
        5000,
        () => 'not all were recorded',
      );
      const runners = started().map(({ runner }) => runner);
      expect(runners.sort()).toEqual([...Array<string>(boxes).fill('bwrap'), 'plain']);
    },
  );
});
