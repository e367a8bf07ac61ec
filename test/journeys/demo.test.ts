import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { cp, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { hasBwrap } from '../needs/bwrap.ts';
import { callModern } from './json-mcp-client.ts';
import { requestControl } from './request-control.ts';
import { repository } from './start-ambit.ts';

interface Demo {
  readonly url: string;
  readonly said: string;
  readonly token: string;
  hear(pattern: RegExp): Promise<string>;
  /** Resolves with the exit code. */
  stop(): Promise<number | null>;
}

const folder = await mkdtemp(join(tmpdir(), 'ambit-demo-'));
const dataDir = join(folder, 'data');
afterAll(() => rm(folder, { recursive: true }));

async function startDemo(root: string): Promise<Demo> {
  const child: ChildProcess = spawn(process.execPath, ['examples/demo/start.js', '--port', '0'], {
    cwd: root,
    env: { ...process.env, AMBIT_DATA_DIR: dataDir },
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const ended = once(child, 'exit');
  let output = '';
  child.stdout?.on('data', (chunk: Buffer) => {
    output += chunk.toString();
  });
  /** Waits until the demo has printed this. */
  async function hear(pattern: RegExp): Promise<string> {
    for (;;) {
      const [found] = pattern.exec(output) ?? [];
      if (found !== undefined) return found;
      await Promise.race([once(child.stdout!, 'data'), ended.then(() => Promise.reject(new Error(output)))]);
    }
  }
  await hear(/Ctrl-C/);
  const said = output;
  const client = await readFile(join(dataDir, 'demo-client.json'), 'utf8');
  return {
    url: /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] ?? '',
    said,
    token: readToken(client),
    hear,
    async stop() {
      child.kill('SIGTERM');
      const [code] = await ended;
      return code;
    },
  };
}

const readToken = (text: string): string => /ambs_[^"]+/.exec(text)?.[0] ?? '';

/** The demo with a server that cannot start and agents that hardly pause, in a folder of its own. */
async function copyBrokenDemo(): Promise<string> {
  const root = join(folder, 'broken');
  await mkdir(join(root, 'examples'), { recursive: true });
  for (const name of ['bin', 'build', 'dist', 'node_modules', 'package.json']) {
    await symlink(join(repository, name), join(root, name));
  }
  // Another demo may be changing that folder.
  const filter = (path: string) => !path.endsWith('/workspaces/orchard');
  await cp(join(repository, 'examples'), join(root, 'examples'), { recursive: true, filter });
  await replaceIn(join(root, 'examples/demo/ambit.yaml'), 'index.js, .]', 'index.js, nowhere]');
  await replaceIn(join(root, 'examples/demo/start.js'), 'teamPauseMs = 2500', 'teamPauseMs = 0');
  await replaceIn(join(root, 'examples/demo/agents.js'), 'pauseMs = 4000', 'pauseMs = 20');
  return root;
}

async function replaceIn(file: string, from: string, to: string): Promise<void> {
  const text = await readFile(file, 'utf8');
  expect(text).toContain(from);
  await writeFile(file, text.replace(from, to));
}

async function call(demo: Demo, token: string, tool: string, args: Record<string, unknown> = {}): Promise<string> {
  const { messages } = await callModern(`${demo.url}/mcp`, token, tool, args);
  return (
    messages
      .at(-1)
      ?.result?.content?.map(({ text }) => text)
      .join('\n') ?? JSON.stringify(messages)
  );
}

/** Lists the outcomes of a tool in the sessions of one agent, with the rules that refused it. */
async function listOutcomes(session: string, tool: string): Promise<string[]> {
  const query = new URLSearchParams({ kind: 'call', session, name: tool });
  const { entries } = await requestControl<{ entries: { outcome: string; rule?: string }[] }>(
    join(dataDir, 'control.sock'),
    'GET',
    `/api/v1/journal?${query}`,
  );
  return entries.map(({ outcome, rule }) => (rule === undefined ? outcome : `${outcome} by ${rule}`));
}

/** The lists of the control API, and the member of the answer that holds the rows. */
const lists = {
  '/keys': 'keys',
  '/credentials': 'credentials',
  '/servers': 'servers',
  '/rules': 'rules',
  '/policies': 'policies',
  '/objectives': 'objectives',
  '/users': 'users',
  '/workspaces': 'workspaces',
  '/sessions': 'sessions',
  '/sessions/ended': 'sessions',
};

type Row = Readonly<Record<string, unknown>>;

async function readLists(): Promise<Record<string, Row[]>> {
  const read = Object.entries(lists).map(async ([path, member]) => {
    const answer = await requestControl<Record<string, Row[]>>(
      join(dataDir, 'control.sock'),
      ...(['GET', `/api/v1${path}`] as const),
    );
    return [path, answer[member] ?? []] as const;
  });
  return Object.fromEntries(await Promise.all(read));
}

describe('npm start', () => {
  test('every server of the demo answers in both sessions', async () => {
    const demo = await startDemo(repository);
    try {
      expect(demo.said).toContain('Ambit is running.\n');
      expect(demo.said).not.toContain('are empty');
      // Every view of the web console has something to show, also at the first start.
      const rows = await readLists();
      expect(Object.entries(rows).filter(([, each]) => each.length === 0)).toEqual([]);
      expect(rows['/servers']?.filter(({ approval }) => approval === 'unapproved')).toMatchObject([{ name: 'diary' }]);
      expect(rows['/keys']).toMatchObject([{ userId: 'grace', state: 'active', lastUsedAt: null }]);
      expect(await readFile(join(dataDir, 'demo-client.json'), 'utf8')).not.toMatch(/ambk_|not-a-real/);
      expect(demo.said).not.toMatch(/ambk_|not-a-real/);
      const id = /demo-kitchen .* session (\S+)/.exec(demo.said)?.[1];
      const kitchen = await requestControl(
        join(dataDir, 'control.sock'),
        ...(['POST', `/api/v1/sessions/${id}/servers`, { via: 'gateway' }] as const),
      );
      const sessions = [
        { workspace: 'garden', token: demo.token, file: 'plan.md', who: 'Water the beans.' },
        { workspace: 'kitchen', token: readToken(JSON.stringify(kitchen)), file: 'shopping.md', who: 'Buy flour.' },
      ];
      const answers = sessions.slice(0, hasBwrap() ? 2 : 1).map(async ({ workspace, token, file, who }) => {
        const text = await readFile(join(repository, 'examples/demo/workspaces', workspace, file), 'utf8');
        const results = await Promise.all([
          call(demo, token, 'notes__list_notes'),
          call(demo, token, 'files__read_text_file', { path: file }),
          call(demo, token, 'who__list_notes'),
        ]);
        expect(results).toEqual([expect.not.stringMatching(/^[A-Z_]+: /), text, expect.stringContaining(who)]);
      });
      await Promise.all(answers);
    } finally {
      // Its team is still working.
      expect(await demo.stop()).toBe(0);
    }
    const again = await startDemo(await copyBrokenDemo());
    try {
      expect(again.token).toBe(demo.token);
      expect(again.said).toContain('1 of its servers did not answer');
      const { '/keys': keys, '/credentials': credentials } = await readLists();
      expect([keys?.length, credentials?.length]).toEqual([1, 1]);
      expect(again.said).toMatch(/\/mcp\/files +does not answer:\n +UPSTREAM_FAILED: .*"files"/);
      expect(await call(again, demo.token, 'notes__list_notes')).not.toContain('UPSTREAM_FAILED');
      const ended = await again.hear(/^The team of agents .*$/m);
      if (hasBwrap()) expect(ended).toBe('The team of agents has finished: 3 results, 1 conflict resolved.');
      await expect.poll(() => listOutcomes('greenhouse-beds', 'session_edit_file')).toContain('ok');
      await expect
        .poll(() => listOutcomes('greenhouse-beds', 'files__write_file'))
        .toContain('PERMISSION_DENIED by keep-logs');
      await expect.poll(() => listOutcomes('kitchen-dinner', 'session_state_set')).toContain('ok');
    } finally {
      await again.stop();
    }
  });
});
