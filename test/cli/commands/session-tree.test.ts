import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { growTree, renderEvent, renderTree } from '../../../src/cli/commands/session-tree.ts';
import { spawnAmbit } from '../../journeys/start-ambit.ts';
import { ambitInProcess, openControlledGateway } from '../in-process.ts';

type Listed = Parameters<typeof growTree>[0][number];
type Watched = Parameters<typeof renderEvent>[0];
type Tree = { readonly name: string; readonly children: readonly Tree[] };

let folder: string;
let places: string[];
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-session-tree-'));
  const configuration =
    'sessions: { defaultTrust: direct, maxSessions: 2000, maxPerUser: 2000 }\nworkspaces: { garden: { path: garden } }\n';
  mkdirSync(join(folder, 'garden'));
  writeFileSync(join(folder, 'ambit.yaml'), `version: 1\n${configuration}`);
  places = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'data')];
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const ambit = (...words: string[]) => ambitInProcess([...words, ...places]);
/** Only the gateway knows the sessions of its memory. */
async function open() {
  const memory = { store: { kind: 'memory' } } as const;
  const { gateway, close } = await openControlledGateway(join(folder, 'ambit.yaml'), join(folder, 'data'), memory);
  let closing: Promise<void> | undefined;
  return { gateway, close: () => (closing ??= close()) };
}

function listed(id: string, parentId: string | null, more: Partial<Listed> = {}): Listed {
  const instant = new Date().toISOString();
  const instants = { createdAt: instant, lastActiveAt: instant, expiresAt: instant, endsAt: instant };
  const none = { name: null, agentId: null, workspaceId: null, task: null, quotas: null, servers: null };
  const rest = { userId: 'ada', trustLevel: 'direct', permissions: [], metadata: {}, ttlSeconds: 60 } as const;
  return { ...none, ...rest, ...instants, id, parentId, ...more };
}

const chain = (length: number) => Array.from({ length }, (_, i) => listed(`s${i}`, i === 0 ? null : `s${i - 1}`));
const branches = (sessions: readonly Listed[]) =>
  renderTree(growTree(sessions))
    .split('\n')
    .slice(1)
    .map((line) => line.replace(/ +ada .*/, ''));

describe('a tree', () => {
  test('siblings keep the order of the list, and a session without a live parent is at the root', () => {
    const sessions = [
      ...[listed('a', null), listed('b', 'a'), listed('lone', 'gone'), listed('c', 'a'), listed('d', 'b')],
      ...[listed('e', 'b'), listed('f', 'c'), listed('g', 'lone')],
    ];
    expect(branches(sessions)).toEqual(['a', '├─ b', '│  ├─ d', '│  └─ e', '└─ c', '   └─ f', 'lone', '└─ g']);
    // Both may have been created in the same millisecond.
    expect(branches([listed('child', 'top'), listed('top', null)])).toEqual(['top', '└─ child']);
    expect(growTree(sessions, 'c')).toMatchObject([{ id: 'c', children: [{ id: 'f', children: [] }] }]);
    expect(growTree(sessions, 'gone')).toEqual([]);
  });

  test('a circle, which only a damaged store has, is cut', () => {
    const circle = [listed('a', 'c'), listed('b', 'a'), listed('c', 'b'), listed('self', 'self')];
    expect(branches(circle)).toHaveLength(circle.length);
    expect(JSON.stringify(growTree(circle))).toContain('"self"');
  });

  test('it fits 80 columns, and every name is seen, however deep it is', () => {
    const task = `${'\u{1f600}'.repeat(900)}`;
    const wide = { agentId: 'g'.repeat(64), workspaceId: 'w'.repeat(63), userId: 'u'.repeat(64), task };
    const lines = renderTree(growTree(chain(16).map((each) => ({ ...each, ...wide })))).split('\n');
    expect(lines.filter((line) => line.length > 80)).toEqual([]);
    expect(lines.slice(1).map((line) => /\bs\d+\b/.exec(line)?.[0])).toEqual(chain(16).map(({ id }) => id));
    const named = renderTree(
      growTree(chain(3).map((each) => ({ ...each, ...wide, name: `${each.id}${'n'.repeat(97)}` }))),
    );
    expect(named.split('\n').filter((line) => line.length > 80)).toEqual([]);
  });

  test('the text of a session cannot move the cursor or add a line', () => {
    const task = 'a\u001b[2J\n├─ forged\u202e\u2028';
    const text = renderTree(growTree([listed('a', null, { task })]));
    expect(text.split('\n')).toHaveLength(2);
    expect(text).toContain('a\\u001b[2J\\u000a├─ forged\\u202e\\u2028');
  });
});

describe('session tree', () => {
  test('shows all live sessions, or those from one down', async () => {
    const { gateway, close } = await open();
    try {
      const hint = 'ambit: No live sessions. Create one with "ambit session create".\n';
      expect(await ambit('session', 'tree')).toEqual({ code: 0, stdout: '', stderr: hint });
      expect(await ambit('session', 'tree', '--json')).toEqual({ code: 0, stdout: '[]\n', stderr: hint });
      const lead = await gateway.openSession({ name: 'lead', userId: 'ada', workspaceId: 'garden', task: 'Plan' });
      const hostile = { task: 'Dig\u001b[2J', trustLevel: 'sandboxed' } as const;
      const worker = await gateway.openSession({ name: 'worker', parentId: lead.record.id, ...hostile });
      const { record } = await gateway.openSession({ parentId: worker.record.id, agentId: 'claude' });
      await gateway.openSession({ name: 'other', userId: 'bob' });
      const { stdout } = await ambit('session', 'tree');
      expect(stdout.replace(/\b\d+s /g, '0s ').split('\n')).toEqual([
        'SESSION         USER  AGENT   WORKSPACE  TRUST      IDLE  TASK',
        'lead            ada   -       garden     direct     0s    Plan',
        '└─ worker       ada   -       garden     sandboxed  0s    Dig\\u001b[2J',
        `   └─ ${record.id.slice(0, 8)}  ada   claude  garden     sandboxed  0s    -`,
        'other           bob   -       -          direct     0s    -',
        '',
      ]);
      const below = JSON.parse((await ambit('session', 'tree', 'WORKER', '--json')).stdout) as Tree[];
      expect(below).toMatchObject([{ name: 'worker', ...hostile, children: [{ id: record.id, children: [] }] }]);
      const shown = `parent +${lead.record.id}\\ntask +Dig\\\\u001b\\[2J`;
      expect((await ambit('session', 'show', 'worker')).stdout).toMatch(new RegExp(`^${shown}$`, 'm'));
    } finally {
      await close();
    }
  });

  test('reads all pages', async () => {
    const { gateway, close } = await open();
    try {
      const { record } = await gateway.openSession({ name: 'first' });
      await Promise.all(Array.from({ length: 1000 }, () => gateway.openSession({})));
      await gateway.openSession({ name: 'last', parentId: record.id });
      const trees = JSON.parse((await ambit('session', 'tree', '--json')).stdout) as Tree[];
      expect(trees).toHaveLength(1001);
      expect(trees.find(({ name }) => name === 'first')).toMatchObject({ children: [{ name: 'last' }] });
    } finally {
      await close();
    }
  });

  test('without a gateway it reads the store', async () => {
    const own = ['--config', join(folder, 'ambit.yaml'), '--data-dir', join(folder, 'own')];
    await ambitInProcess(['session', 'create', '--name', 'lead', ...own]);
    await ambitInProcess(['session', 'create', '--name', 'worker', '--parent', 'lead', ...own]);
    const { code, stdout } = await ambitInProcess(['session', 'tree', 'lead', ...own]);
    expect([code, stdout]).toEqual([0, expect.stringMatching(/^SESSION .*\nlead .*\n└─ worker .*\n$/)]);
    expect(await ambitInProcess(['session', 'tree', 'nobody', ...own])).toMatchObject({
      code: 1,
      stdout: '',
      stderr: expect.stringContaining('SESSION_NOT_FOUND'),
    });
    expect((await ambitInProcess(['session', 'tree', 'lead', 'worker', ...own])).code).toBe(2);
  });
});

describe('a line of an event', () => {
  const at = new Date(2026, 10, 18, 9, 5, 7).toISOString();
  const session = listed('1a2b3c4d5e6f', '9f8e7d6c5b4a', {
    name: 'worker-1',
    workspaceId: 'garden',
    task: 'Dig\u001b[2J\n',
  });
  test.each([
    [
      { type: 'created', session },
      'created worker-1 (1a2b3c4d) child of lead, user ada, workspace garden, task Dig\\u001b[2J\\u000a',
    ],
    [
      { type: 'restricted', session: { ...session, parentId: null, task: null, agentId: 'claude' } },
      'restricted worker-1 (1a2b3c4d) user ada, agent claude, workspace garden, trust direct',
    ],
    [{ type: 'ended', reason: 'revoked', session: { id: '1a2b3c4d5e6f' } }, 'ended 1a2b3c4d reason revoked'],
    [{ type: 'evicted', reason: 'evicted', session: { id: '1a2b3c4d5e6f' } }, 'evicted 1a2b3c4d'],
    [{ type: 'lost' }, 'lost some events are missing; list the sessions with "ambit session tree"'],
    [
      { type: 'task\u001b-done', result: { files: 2 }, session: { id: 'abc' } },
      'task\\u001b-done abc result {"files":2}',
    ],
  ])('%j', (event, words) => {
    expect(renderEvent({ at, ...event }, () => 'lead', 0)).toBe(`09:05:07 ${words}`);
  });

  test('it fits the terminal', () => {
    expect(renderEvent({ at, type: 'created', session }, undefined, 40)).toBe(
      '09:05:07 created worker-1 (1a2b3c4d) ch…',
    );
  });
});

interface Watcher {
  readonly child: ChildProcess;
  /** The first lines on stdout. */
  read(count: number): Promise<string[]>;
  readonly ended: Promise<{ readonly code: number | null; readonly stderr: string }>;
}

/** Starts `ambit session watch`. Resolves when it receives events. */
async function watch(...words: string[]): Promise<Watcher> {
  const child = spawnAmbit(['session', 'watch', ...words, ...places]);
  const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
  let stderr = '';
  const ready = new Promise<void>((resolve) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      stderr += chunk.toString();
      if (stderr.includes('watching')) resolve();
    });
  });
  const ended = once(child, 'close').then(([code]) => ({ code: code as number | null, stderr }));
  await Promise.race([ready, ended.then(({ stderr: said }) => Promise.reject(new Error(said)))]);
  return {
    child,
    async read(count) {
      const read: string[] = [];
      for (let i = 0; i < count; i++) read.push((await lines.next()).value as string);
      return read;
    },
    ended,
  };
}

const onlyGreeting = 'ambit: watching; Ctrl-C ends this\n';

describe('session watch', () => {
  test('prints events as they happen, and ends with the gateway or with a signal', async () => {
    const { gateway, close } = await open();
    const watchers: Watcher[] = [];
    try {
      const lead = (await gateway.openSession({ name: 'lead', userId: 'ada' })).record;
      const old = (await gateway.openSession({ name: 'old', parentId: lead.id })).record;
      const [all, some] = await Promise.all([watch(), watch('--json', '--session', 'old')]);
      watchers.push(all, some);
      await gateway.openSession({ name: 'other', userId: 'ada', task: 'Rest' });
      const worker = (await gateway.openSession({ name: 'worker', parentId: old.id, task: 'Dig\u001b[2J\u2028' }))
        .record;
      const { record } = await gateway.openSession({ parentId: worker.id });
      await gateway.restrictSession(worker.id, { trustLevel: 'sandboxed' });
      await gateway.sessions.end(lead.id);
      const short = ({ id }: { readonly id: string }) => id.slice(0, 8);
      const said = (await all.read(9)).map((line) => line.replace(/^\d\d:\d\d:\d\d /, ''));
      expect(said.slice(0, 3)).toEqual([
        expect.stringMatching(/^created other \([0-9a-f]{8}\) user ada, task Rest$/),
        `created worker (${short(worker)}) child of old, user ada, task Dig\\u001b[2J\\u2028`,
        `created ${short(record)} child of worker, user ada`,
      ]);
      expect(said.filter((line) => line.startsWith('restricted')).sort()).toEqual(
        [
          `restricted ${short(record)} child of worker, user ada, trust sandboxed`,
          `restricted worker (${short(worker)}) child of old, user ada, trust sandboxed, task Dig\\u001b[2J\\u2028`,
        ].sort(),
      );
      expect(
        said
          .filter((line) => line.startsWith('ended'))
          .map((line) => line.split(' ')[1])
          .sort(),
      ).toEqual(['lead', 'old', 'worker', short(record)].sort());
      const lines = await some.read(7);
      expect(lines[0]).toContain('Dig\\u001b[2J');
      const events = lines.map((line) => JSON.parse(line) as Watched);
      expect(events[0]).toMatchObject({
        type: 'created',
        at: expect.any(String),
        session: { id: worker.id, permissions: [] },
      });
      const ids = events.map(({ session }) => session?.id);
      expect(new Set(ids)).toEqual(new Set([worker.id, record.id, old.id]));
      some.child.kill('SIGINT');
      expect(await some.ended).toEqual({ code: 0, stderr: onlyGreeting });
      await close();
      const { code, stderr } = await all.ended;
      expect([code, stderr]).toEqual([
        1,
        expect.stringMatching(/GATEWAY_UNREACHABLE: The gateway has ended\.\n.*ambit serve/),
      ]);
    } finally {
      for (const { child } of watchers) child.kill('SIGKILL');
      await close();
    }
  });

  test('ends quietly when its reader leaves, or with TERM', async () => {
    const { gateway, close } = await open();
    const watchers: Watcher[] = [];
    try {
      const [left, stopped] = await Promise.all([watch(), watch('--json')]);
      watchers.push(left, stopped);
      await gateway.openSession({ name: 'one' });
      expect((await left.read(1))[0]).toMatch(/ created one \(/);
      left.child.stdout?.destroy();
      await gateway.openSession({ name: 'two' });
      expect(await left.ended).toEqual({ code: 0, stderr: onlyGreeting });
      expect((await stopped.read(2)).map((line) => (JSON.parse(line) as Watched).session?.name)).toEqual([
        'one',
        'two',
      ]);
      stopped.child.kill('SIGTERM');
      expect(await stopped.ended).toEqual({ code: 0, stderr: onlyGreeting });
    } finally {
      for (const { child } of watchers) child.kill('SIGKILL');
      await close();
    }
  });

  test('says what is missing', async () => {
    const none = await ambit('session', 'watch');
    expect(none).toMatchObject({ code: 1, stdout: '' });
    expect(none.stderr).toMatch(/GATEWAY_UNREACHABLE: No gateway is running.*\n.*"ambit serve"/);
    expect((await ambit('session', 'watch', '--session', '')).code).toBe(2);
    const { close } = await open();
    try {
      const unknown = await ambit('session', 'watch', '--session', 'nobody');
      expect(unknown).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('SESSION_NOT_FOUND') });
    } finally {
      await close();
    }
  });
});
