import { readdirSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hasBwrap } from '../../needs/bwrap.ts';
import { readFilesBelow } from '../../read-files.ts';
import { callModern, readOutcome } from '../json-mcp-client.ts';
import { requestControl } from '../request-control.ts';
import { type RunningAmbit, repository, startAmbit } from '../start-ambit.ts';

interface TeamSession {
  readonly id: string;
  readonly name: string;
  readonly parentId: string | null;
}

interface TeamOutcome {
  readonly sessions: readonly TeamSession[];
  readonly conflicts: readonly object[];
}

interface TeamProgram {
  runTeam(options: {
    readonly url: string;
    readonly adminToken: string;
    readonly folder: string;
    review(session: TeamSession): Promise<void>;
  }): Promise<TeamOutcome>;
  describeRun(outcome: TeamOutcome): string;
}

interface JournalLine {
  readonly event?: string;
  readonly sessionId: string;
  readonly parentId?: string;
  readonly toSessionId?: string;
  readonly rule?: string;
}

/** What the team is known to write into each file that it changes. */
const finalFiles = {
  'CHANGELOG.md': `# Changelog

## 2.0.0

No function reads the clock any more: each gets the year as its last parameter.

### Functions with a new name

- \`age(tree)\` is now \`ageOf(tree, year)\`.
- \`crop(trees)\` is now \`cropOf(trees, year)\`.

### Functions that keep their name

- \`label(tree)\` is now \`label(tree, year)\`.

## 1.0.0

- The first version.
`,
  'src/trees.js': `/** Returns the age of a tree in years. */
export function ageOf(tree, year) {
  return year - tree.planted;
}
`,
  'src/harvest.js': `import { ageOf } from './trees.js';

/** Returns how many kilograms these trees bear in a year. A tree bears the most from its tenth year on. */
export function cropOf(trees, year) {
  return trees.reduce((sum, tree) => sum + 5 * Math.min(ageOf(tree, year), 10), 0);
}
`,
  'src/labels.js': `import { ageOf } from './trees.js';

/** Returns the text for the label of a tree. */
export function label(tree, year) {
  return \`\${tree.kind}, \${ageOf(tree, year)} years\`;
}
`,
};

/** The ids of the commits tell that every byte is the same in each run. */
const summary = `The sessions:
  orchard-lead: Let no function of the library read the clock
    orchard-trees: Rename age() to ageOf() and pass the year
    orchard-harvest: Rename crop() to cropOf() and pass the year
    orchard-labels: Pass the year to label()

The functions that they reported:
  trees: ageOf(tree, year)
  harvest: cropOf(trees, year)
  labels: label(tree, year)

The conflicts that the lead asked a worker to resolve:
  CHANGELOG.md of harvest. The answer: "Both lines are in it now."

The commits:
  d680d74 labels: Pass the year to label()
  7eaa661 harvest: Rename crop() to cropOf() and pass the year
  7266e49 trees: Rename age() to ageOf() and pass the year
  41a7ea7 Ada: The first version

The changes:
  CHANGELOG.md   | 5 +++++
  README.md      | 2 +-
  src/harvest.js | 6 +++---
  src/labels.js  | 6 +++---
  src/trees.js   | 4 ++--
  5 files changed, 14 insertions(+), 9 deletions(-)
`;

describe.skipIf(!hasBwrap())('P13: a lead and three workers split a task over the files of one repository', () => {
  let ambit: RunningAmbit;
  let program: TeamProgram;
  let outcome: TeamOutcome;
  let folder: string;
  const ids = new Map<string, string>();
  const seen: Record<string, string> = {};

  const control = <T>(method: string, path: string) =>
    requestControl<T>(join(ambit.dataDir, 'control.sock'), method, `/api/v1/sessions/${path}`);

  /** Tries to reach the worktree of another worker with the token of one. */
  async function reachOut({ id }: TeamSession): Promise<void> {
    const { token } = await control<{ token: string }>('POST', `${id}/tokens`);
    const { path: other } = await control<{ path: string }>('GET', 'orchard-trees/diff');
    const { path: own } = await control<{ path: string }>('GET', `${id}/diff`);
    expect(readFileSync(join(other, 'src/trees.js'), 'utf8')).toBe(finalFiles['src/trees.js']);
    const up = '../'.repeat(own.split('/').length);
    const call = async (name: string, args: Record<string, unknown>) =>
      readOutcome(await callModern(ambit.mcp('ambit'), token, name, args));
    seen['its own copy'] = await call('session_read_file', { path: 'src/trees.js' });
    seen['an absolute path'] = await call('session_read_file', { path: join(other, 'src/trees.js') });
    seen['a path upwards'] = await call('session_read_file', { path: join(`${up}.`, other, 'src/trees.js') });
    seen['a new file'] = await call('session_edit_file', { path: join(other, 'new.js'), content: '' });
    seen['the session'] = await call('session_read_file', { session: 'orchard-trees', path: 'src/trees.js' });
    seen['a search'] = await call('session_grep_search', { pattern: 'function ageOf' });
  }

  const readJournal = (): JournalLine[] =>
    readdirSync(join(ambit.dataDir, 'journal'))
      .flatMap((name) =>
        readFileSync(join(ambit.dataDir, 'journal', name), 'utf8')
          .trim()
          .split('\n'),
      )
      .map((line) => JSON.parse(line) as JournalLine);
  const listEvents = (event: string) => readJournal().filter((line) => line.event === event);

  beforeAll(async () => {
    program = (await import(pathToFileURL(join(repository, 'examples/team/team.js')).href)) as TeamProgram;
    ambit = await startAmbit({ workspaces: { orchard: { path: '../orchard', create: true, isolation: 'worktree' } } });
    folder = join(ambit.folder, 'orchard');
    const adminToken = readFileSync(join(ambit.dataDir, 'admin-token'), 'utf8').trim();
    const review = async (session: TeamSession) => {
      if (session.name === 'orchard-harvest') await reachOut(session);
    };
    outcome = await program.runTeam({ url: ambit.url, adminToken, folder, review });
    for (const { id, name } of outcome.sessions) ids.set(name.replace('orchard-', ''), id);
  });
  afterAll(() => ambit?.stop());

  test('the worktrees are removed', async () => {
    const owners = new Set(ids.values());
    expect(owners.size).toBe(4);
    await expect.poll(() => readdirSync(join(ambit.dataDir, 'folders')).filter((id) => owners.has(id))).toEqual([]);
    expect(readdirSync(join(folder, '.git'))).not.toContain('worktrees');
  });

  test('the files and commits are always the same, and the library works', async () => {
    for (const [path, text] of Object.entries(finalFiles)) expect(readFileSync(join(folder, path), 'utf8')).toBe(text);
    expect(program.describeRun(outcome)).toBe(summary);
    const library = await import(pathToFileURL(join(folder, 'src/index.js')).href);
    const tree = { kind: 'apple', planted: 2019 };
    expect([library.label(tree, 2026), library.cropOf([tree], 2026)]).toEqual(['apple, 7 years', 35]);
  });

  test('one merge conflicts, and the worker combines both changes', () => {
    expect(outcome.conflicts).toEqual([
      { worker: 'harvest', path: 'CHANGELOG.md', answer: 'Both lines are in it now.' },
    ]);
  });

  test('a worker cannot see the worktree of another one', () => {
    expect(seen).toEqual({
      'its own copy': expect.stringContaining('export function age(tree)'),
      'an absolute path': '!PATH_VIOLATION',
      'a path upwards': '!PATH_VIOLATION',
      'a new file': '!PATH_VIOLATION',
      'the session': '!SESSION_NOT_FOUND',
      'a search': 'No line matches.',
    });
  });

  test('the journal links parent and children, messages and results', async () => {
    await expect.poll(() => listEvents('ended').length).toBe(4);
    const name = (id: string | undefined) => [...ids].find((entry) => entry[1] === id)?.[0];
    const created = listEvents('created').map(({ sessionId, parentId }) => [name(parentId), name(sessionId)]);
    expect(created).toEqual([[undefined, 'lead'], ...['trees', 'harvest', 'labels'].map((worker) => ['lead', worker])]);
    const sent = listEvents('message-sent').map((line) => `${name(line.sessionId)} to ${name(line.toSessionId)}`);
    expect(sent.sort()).toEqual([
      'harvest to lead',
      'harvest to trees',
      'labels to trees',
      'lead to harvest',
      'lead to harvest',
      'lead to labels',
      'lead to trees',
      'trees to harvest',
      'trees to labels',
    ]);
    const reported = listEvents('reported').map((line) => `${name(line.sessionId)} to ${name(line.parentId)}`);
    expect(reported.sort()).toEqual(['harvest to lead', 'labels to lead', 'trees to lead']);
    const refused = readJournal().filter((line) => line.rule === 'resultSchema');
    expect(refused.map((line) => name(line.sessionId))).toEqual(['labels']);
    const ended = listEvents('ended').map((line) => name(line.sessionId));
    expect(ended.sort()).toEqual(['harvest', 'labels', 'lead', 'trees']);
  });

  test('no token is in a file of the gateway', () => {
    const files = [...readFilesBelow(ambit.dataDir)].map(([path, text]) => ({ name: basename(path), text }));
    expect(files.filter(({ text }) => text.includes('ambs_')).map(({ name }) => name)).toEqual([]);
    expect(files.map(({ name }) => name)).toEqual(expect.arrayContaining(['sessions.db', 'admin-token']));
  });
});
