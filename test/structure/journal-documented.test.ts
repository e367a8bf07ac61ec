import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createGateway } from '../../src/index.ts';
import { type CallEntry, formatCallEntry, type JournalEntry } from '../../src/observability/journal/journal.ts';
import type { RefusalEvent } from '../../src/observability/journal/refusals.ts';
import type { UnloadReason } from '../../src/sessions/session.ts';
import type { LoginEvent } from '../../src/upstreams/auth/logins.ts';
import type { FolderEvent } from '../../src/workspaces/session-folders/session-folders.ts';
import type { ToolResolution } from '../../src/workspaces/tools/file-access.ts';
import { ambitInProcess } from '../cli/in-process.ts';
import { createRawClient } from '../gateway/raw-client.ts';
import { hasJq } from '../needs/jq.ts';
import { readSourceFiles } from './source-files.ts';

const page = readSourceFiles('docs/reference', /^journal\.md$/)[0]?.text ?? '';
const names = (cell: string) => [...cell.matchAll(/`([A-Za-z][A-Za-z0-9-]*)`/g)].map((match) => match[1] as string);

/** Of each kind, the fields of its lines; of each of its events, where it has some. */
interface Kind {
  readonly fields: readonly string[];
  readonly events: ReadonlyMap<string, readonly string[]>;
}

function readKind(text: string): Kind {
  const rows = [...text.matchAll(/^\| (`.+) \|$/gm)].map((match) => (match[1] as string).split(/(?<!\\) \| /));
  const events = new Map<string, readonly string[]>();
  let before: readonly string[] = [];
  for (const [first = '', second = ''] of rows.filter((cells) => cells.length === 3)) {
    before = second === 'the same' ? before : names(second);
    for (const event of names(first)) events.set(event, before);
  }
  return { fields: rows.filter((cells) => cells.length === 2).flatMap(([first = '']) => names(first)), events };
}

const kinds = new Map(
  page
    .split(/^## /m)
    .filter((section) => section.startsWith('`'))
    .map((section) => [names(section)[0] as string, readKind(section)]),
);

/** Each event that a type names, and no other: what is missing or too much here does not compile. */
const all = <T extends string>(events: Record<T, true>): string[] => Object.keys(events);

test('the page has every kind of line', () => {
  const written = all<JournalEntry['kind']>({
    call: true,
    push: true,
    process: true,
    egress: true,
    file: true,
    session: true,
    gateway: true,
    refusal: true,
  });
  expect([...kinds.keys()].sort()).toEqual(written.sort());
});

test('every field of a call', () => {
  const text: Required<CallEntry> = {
    ...{
      id: 'x',
      sessionId: 'x',
      userId: 'x',
      keyId: 'x',
      entrance: 'x',
      era: 'x',
      server: 'x',
      method: 'x',
      name: 'x',
    },
    ...{
      outcome: 'x',
      rule: 'x',
      claims: 'x',
      argsSha256: 'x',
      workspaceId: 'x',
      ignoredWorkspace: 'x',
      traceId: 'x',
      spanId: 'x',
      cached: 'x',
    },
    ...{ pid: 1, ms: 1, upstreamMs: 1, bytesIn: 1, bytesOut: 1 },
  };
  const { kind: _, ...written } = JSON.parse(`{${formatCallEntry(text)}`) as Record<string, unknown>;
  expect(Object.keys(written).sort()).toEqual(Object.keys(text).sort());
  expect([...(kinds.get('call')?.fields ?? [])].sort()).toEqual(Object.keys(written).sort());
});

test('every field of a path', () => {
  const told: Required<ToolResolution> = {
    ...{ operation: 'x', asked: 'x', resolved: 'x', decision: 'allowed', code: 'x', further: 1 },
    ...{ tool: 'x', sessionId: 'x', workspaceId: 'x', correlationId: 'x' },
  };
  const { correlationId: _, ...fields } = told;
  expect([...(kinds.get('file')?.fields ?? [])].sort()).toEqual(['id', ...Object.keys(fields)].sort());
});

test('every event', () => {
  // The journal itself says what it lost and deleted.
  const own = 'src/observability/journal/journal.ts';
  const writers = readSourceFiles('src').filter(({ path, text }) => path === own || /journal\??\.record\(/.test(text));
  expect(writers.length).toBeGreaterThan(8);
  // The word of an event stands where it is written, or where it is noted first.
  const said = writers.flatMap(({ text }) => [
    ...[...text.matchAll(/\bevent: (?:kind === 'block' \? )?'([a-z-]+)'(?: : '([a-z-]+)')?/g)],
    ...[...text.matchAll(/\b(?:note|record[A-Z]\w*)\((?:known === undefined \? )?'([a-z-]+)'(?: : '([a-z-]+)')?/g)],
  ]);
  const reasons = all<Exclude<UnloadReason, 'unloaded'>>({
    ended: true,
    expired: true,
    evicted: true,
    revoked: true,
    closed: true,
  });
  const folders = all<FolderEvent>({
    'folder-made': true,
    'folder-kept': true,
    'folder-merged': true,
    'folder-removed': true,
  });
  const logins = all<LoginEvent>({
    'login-wanted': true,
    'login-started': true,
    'login-made': true,
    'login-renewed': true,
    'login-lost': true,
    'login-removed': true,
  });
  const refusals = all<RefusalEvent>({
    ...{ credential: true, admin: true, host: true, origin: true, address: true, method: true, type: true },
    ...{ length: true, message: true, envelope: true, batch: true, request: true, connection: true },
    ...{ overload: true, control: true, login: true, call: true, 'sign-in': true },
  });
  const written = new Set([
    ...said.flatMap(([, one, other]) => [one, other]),
    ...reasons,
    ...folders,
    ...logins,
    ...refusals,
  ]);
  written.delete(undefined);
  const documented = new Set([...kinds.values()].flatMap(({ events }) => [...events.keys()]));
  expect([...documented].sort()).toEqual([...written].sort());
});

describe('what a gateway writes', () => {
  let folder: string;
  let lines: Record<string, unknown>[];
  const env = () => ({ AMBIT_DATA_DIR: join(folder, 'data'), AMBIT_CONFIG: join(folder, 'ambit.json') });

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'ambit-journal-'));
    mkdirSync(join(folder, 'garden'));
    writeFileSync(join(folder, 'garden/notes.txt'), 'roses\n');
    const script = join(import.meta.dirname, '..', 'fixtures', 'reloaded', 'server.js');
    const config = {
      version: 1 as const,
      sessions: { defaultTrust: 'direct' as const },
      servers: { notes: { command: process.execPath, args: [script], env: { MARK: 'done', ERA: 'modern' } } },
      workspaces: { garden: { path: join(folder, 'garden') } },
    };
    writeFileSync(env().AMBIT_CONFIG, JSON.stringify(config));
    const gateway = await createGateway({ config, dataDir: env().AMBIT_DATA_DIR, log: { info() {}, warn() {} } });
    const session = await gateway.createSession({ workspaceId: 'garden', name: 'task-49', agentId: 'coder' });
    const other = await gateway.createSession({ workspaceId: 'garden' });
    const client = await createRawClient(gateway.connect(session.id), 'modern');
    await client.tools();
    await client.call('session_read_file', { session: 'current', path: 'notes.txt' });
    await client.call('session_read_file', { session: 'current', path: '../data/admin-token' });
    await client.call('session_grep_search', { session: 'current', pattern: 'roses' });
    const { url } = await gateway.listen({ port: 0 });
    await fetch(`${url}/mcp`, { method: 'POST' });
    await client.close();
    await gateway.restrictSession(session.id, { ttlSeconds: 60 });
    await gateway.endSession(other.id);
    await gateway.people.users.add('ada', ['team']);
    const { view } = await gateway.people.keys.create({ userId: 'ada' });
    await gateway.people.keys.rotate(view.id);
    await gateway.people.keys.revoke(view.id);
    await gateway.people.users.remove('ada');
    await gateway.credentials.set({ userId: 'ada', server: 'notes', env: 'NOTES_KEY' }, 'a secret of ada');
    await gateway.reload(config);
    await gateway.close();
    const policy = ['policy', 'add', '--scope', 'org', '--name', 'calm', 'Stay calm.'];
    expect(await ambitInProcess(policy, env())).toMatchObject({ code: 0 });
    const text = readFileSync(join(env().AMBIT_DATA_DIR, 'journal/journal.jsonl'), 'utf8');
    lines = text
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test('is on the page, field by field', () => {
    expect(new Set(lines.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(5);
    const unknown = lines.flatMap((line) => {
      const { time, kind, event, ...rest } = line;
      const known = kinds.get(kind as string);
      // Fields of every event of a kind stand above them.
      const fields = [...(known?.fields ?? []), ...(known?.events.get(event as string) ?? [])];
      return Object.keys(rest)
        .filter((field) => !fields.includes(field))
        .map((field) => `${kind} ${event ?? ''} ${field}`);
    });
    expect(unknown).toEqual([]);
    expect(JSON.stringify(lines)).not.toContain('a secret of ada');
  });

  test('can be read as the page says', async () => {
    const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map((match) => match[1] as string);
    expect(blocks).toHaveLength(2);
    const [search = '', queries = ''] = blocks;
    const found = await ambitInProcess(search.trim().split(' ').slice(1), env());
    expect(found).toMatchObject({ code: 0 });
    expect(found.stdout).toContain('../data/admin-token');
    if (!hasJq()) return;
    const cwd = join(env().AMBIT_DATA_DIR, 'journal');
    const id = lines.find(({ kind }) => kind === 'call')?.['sessionId'] as string;
    const said = queries
      .split('\n')
      .filter((line) => line.startsWith('jq '))
      .map((line) => {
        const script = line.replace('1a2b3c4d', id.slice(0, 8));
        return execFileSync('bash', ['-euo', 'pipefail', '-c', script], { cwd, encoding: 'utf8' });
      });
    expect(said.filter((text) => text === '')).toEqual([]);
    expect(said[1]).toContain(id);
    expect(said[3]).toContain('../data/admin-token');
  });
});
