import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { renderCalls } from '../../../src/cli/commands/session.ts';
import {
  formatJson,
  relativeTime,
  renderChangedTools,
  renderPairs,
  renderTable,
  shortenEnd,
  wrapText,
} from '../../../src/cli/io/output.ts';
import { ambitInProcess, onlyStoreNote, splitWords } from '../in-process.ts';

const longUser = 'id.example.com|248289761001-and-more-of-it';
const longServer = 'a-server-with-a-rather-long-name-for-it';
const longWorkspace = 'billing-and-invoicing-service';
const longFolder = join('some', 'deeper', 'place', 'for', 'the', 'files', 'of', `${longWorkspace}-of-the-organisation`);

let folder: string;
const places = (name: string) => [
  ...['--config', join(folder, `${name}.json`)],
  ...['--data-dir', join(folder, `data-${name}`)],
];

async function run(name: string, ...args: string[]): Promise<string> {
  const { code, stdout, stderr } = await ambitInProcess([...args, ...places(name)]);
  expect([code, stderr]).toEqual([0, onlyStoreNote]);
  return stdout.replace(/\n$/, '');
}

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'ambit-tables-'));
  mkdirSync(join(folder, longFolder), { recursive: true });
  mkdirSync(join(folder, 'one'));
  writeFileSync(join(folder, 'empty.json'), '{"version":1}');
  const servers = {
    notes: { command: 'node' },
    [longServer]: { command: 'node', env: { [`LONG_${'X'.repeat(40)}`]: 'v' } },
  };
  const workspaces = { one: { path: join(folder, 'one') }, [longWorkspace]: { path: join(folder, longFolder) } };
  writeFileSync(join(folder, 'full.json'), JSON.stringify({ version: 1, servers, workspaces }));
  const name = 'refactor-the-billing-service-and-its-neighbours';
  const summary = 'summary=a summary of what is being done here that is longer than a line has room for, sadly';
  const open = ['session', 'create', '--trust'];
  await run('full', ...open, 'sandboxed', '--name', name, '--user', longUser, '--workspace', longWorkspace);
  const short = splitWords('direct --name short --user ada --workspace one --server notes');
  await run('full', ...open, ...short, '--meta', summary);
  await run('full', 'user', 'add', longUser, '--team', 'platform-engineering', '--team', longWorkspace, '--team', 'c');
  const key = splitWords(`key create --user ${longUser} --workspace one --workspace ${longWorkspace} --expires 90d`);
  await run('full', ...key);
  const text = 'Every invoice must be readable by a person, whoever that may be, and by nobody else.';
  await run('full', 'policy', 'add', '--scope', `user:${longUser}`, '--name', 'keep-the-invoices-readable', text);
  await run('full', 'objective', 'add', '--scope', 'org', text);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('within 80 columns, however long the names are', () => {
  test.each([
    ['session list', /^[0-9a-f]{8} +refactor-\S*… +id\.exampl\S*… +billing-\S*… +sandboxed +all +\d+s +\d+m$/m],
    ['session list', /^[0-9a-f]{8} +short +ada +one +direct +1 +\d+s +\d+m$/m],
    ['session show short', /^expires +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, in \d+m$/m],
    ['session show short', /^meta summary +a summary .*\n {14}\S/m],
    ['server list', /^a-server-with-a-rather\S*… +- +stdio +- +- +- +-$/m],
    ['workspace list', new RegExp(`^${longWorkspace} +direct +….*-of-the-organisation$`, 'm')],
    ['user list', /^id\.example\.com\|248289761001-and-more-of-it +\S.*… +added \d{4}-\d\d-\d\d$/m],
    ['team list', /^billing-and-invoicing-service +id\.example\.com\|248289761001-and-more-of-it$/m],
    ['key list', /^[0-9a-f]{8} +id\.exam\S*… +active +direct +one, .*… +never +in 90d$/m],
    ['policy list', /^user:id\.exam\S+ +keep-the\S* +prepend +\S.*…$/m],
    ['objective list', /^o-\w+ +org +Every invoice must be readable .*…$/m],
    ['resolve --session short --explain', /^notes +AMBIT_SESSION_ID +injected$/m],
  ])('%s', async (command, line) => {
    const stdout = await run('full', ...command.split(' '));
    expect(stdout.split('\n').filter((each) => each.length > 80)).toEqual([]);
    expect(stdout).toMatch(line);
    const shown = command.startsWith('resolve') ? command.replace(' --explain', '') : command;
    expect(JSON.parse(await run('full', ...shown.split(' '), '--json'))).toBeTypeOf('object');
  });

  test('empty columns are left out', async () => {
    expect((await run('full', 'objective', 'list')).split('\n')[0]).toMatch(/^ID +FROM +TEXT$/);
    expect((await run('full', 'team', 'list')).split('\n')[0]).toMatch(/^TEAM +MEMBERS$/);
  });
});

test.each([
  ['session list', 'ambit session create'],
  ['server list', 'ambit import'],
  ['workspace list', '"workspaces"'],
  ['user list', 'ambit user add'],
  ['team list', 'ambit user add'],
  ['key list', 'ambit key create'],
  ['credential list', 'ambit credential set'],
  ['policy list', 'ambit policy add'],
  ['objective list', 'ambit objective add'],
])('%s says what to do when there is nothing to list', async (command, next) => {
  const stdout = await run('empty', ...command.split(' '));
  expect(stdout).toMatch(/^No [a-z ]+\. /);
  expect(stdout).toContain(next);
  expect(JSON.parse(await run('empty', ...command.split(' '), '--json'))).toBeTypeOf('object');
});

test('columns to copy are cut last, paths at their start, and no character is split', () => {
  const row = ['n'.repeat(40), 't'.repeat(60), `/${'p'.repeat(60)}/end`];
  const [, line = ''] = renderTable(['NAME', 'TEXT', 'PATH'], [row], {
    keepWidth: ['NAME'],
    truncateStart: ['PATH'],
  }).split('\n');
  expect(line).toHaveLength(80);
  expect(line).toMatch(/^n{40} {2}t+… {2}…p+\/end$/);
  const smiling = renderTable(['A', 'B'], [['😀'.repeat(60), 'x'.repeat(41)]]);
  expect(smiling).toMatch(/😀…/u);
  expect(smiling).not.toMatch(/\p{Surrogate}/u);
});

test('many columns of the minimum width are not narrowed further', () => {
  const names = Array.from({ length: 12 }, (_, i) => `COLUMN-${i}`);
  expect(renderTable(names, [names]).split('\n')[1]?.split(/ +/)).toEqual(names);
});

test('a wide terminal shows more', () => {
  const { isTTY, columns } = process.stdout;
  Object.assign(process.stdout, { isTTY: true, columns: 200 });
  try {
    expect(renderTable(['TEXT'], [['x'.repeat(150)]])).toContain('x'.repeat(150));
  } finally {
    Object.assign(process.stdout, { isTTY, columns });
  }
});

test('text is wrapped to a narrow terminal, and to 80 columns on a wide one', () => {
  const { isTTY, columns } = process.stdout;
  const widest = (width: number) => {
    Object.assign(process.stdout, { isTTY: true, columns: width });
    return Math.max(
      ...stripVTControlCharacters(renderPairs([['name', 'a '.repeat(100)]]))
        .split('\n')
        .map(({ length }) => length),
    );
  };
  try {
    expect([60, 200, 5].map(widest)).toEqual([59, 79, 39]);
  } finally {
    Object.assign(process.stdout, { isTTY, columns });
  }
});

test('a single word is left whole, to be copied', () => {
  const token = `ambs_${'x'.repeat(100)}`;
  expect(renderPairs([['token', token]])).toBe(`token  ${token}`);
});

test('times are in the unit a person would use', () => {
  const now = Date.parse('2026-11-15T09:00:00.000Z');
  const at = (seconds: number) => relativeTime(new Date(now + seconds * 1000).toISOString(), now);
  expect([-5, 90, 3600, 86_400, 90 * 86_400, -3 * 86_400].map(at)).toEqual([
    ...['5s ago', 'in 90s', 'in 60m', 'in 24h', 'in 90d', '3d ago'],
  ]);
});

test('calls fit, and the name of the tool is cut last', () => {
  const call = {
    ...{ at: new Date(Date.now() - 5000).toISOString(), id: 'c', server: longServer, method: 'tools/call' },
    ...{ name: 'n'.repeat(30), outcome: 'PERMISSION_DENIED', entrance: 'http', era: 'modern' },
    ...{ ms: 4.26, bytesIn: 1, bytesOut: 1 },
  };
  const shown = renderCalls([call]);
  expect(shown).toMatch(/^\d+s ago +a-server… +\S+ +n{21,}… +PERMISSION_DENIED +4\.3$/m);
  expect(shown.split('\n').filter((line) => line.length > 80)).toEqual([]);
  // The stream that a client opens is recorded without a duration.
  const stream = { at: call.at, server: '*', method: '(stream)', outcome: 'ok' };
  expect(renderCalls([stream])).toMatch(/^\d+s ago +\* +\(stream\) +- +ok +-$/m);
});

test('control characters, which could hide or forge lines of a terminal, are shown as escapes everywhere', () => {
  const hostile = 'a\u001b[2Jb\u202ec\nd\u009be';
  const shown = String.raw`a\u001b[2Jb\u202ec\u000ad\u009be`;
  expect(renderTable(['NAME'], [[hostile]])).toBe(`NAME\n${shown}`);
  expect(renderPairs([['name', hostile]])).toBe(`name  ${shown}`);
  expect(renderPairs([['name', `two words ${hostile}`]])).toBe(`name  two words ${shown}`);
  expect(shortenEnd(hostile, 80)).toBe(shown);
  expect(wrapText(`two words ${hostile}`, 80)).toEqual([`two words ${shown}`]);
});

test('tools that changed are listed with their lines, and nothing in them moves the cursor', () => {
  const diff = '@@ -1 +1 @@\n-Reads.\n+Reads\u001b[2K and sends.\n';
  const parts = [
    { part: 'description', diff, note: null },
    { part: 'title', diff: '', note: 'Not kept.' },
  ];
  const tools = [
    { name: 'same', state: 'approved', parts: [] },
    { name: 'read', state: 'changed', parts },
  ];
  expect(renderChangedTools(tools).split('\n')).toEqual([
    ...['', '', 'read (changed):', '    description:', '      -Reads.', '      +Reads\\u001b[2K and sends.'],
    ...['    title:', '      (Not kept.)'],
  ]);
  expect(renderChangedTools([])).toBe('');
});

test('JSON for a terminal shows characters that nobody would see, and is the same value', () => {
  const value = ['a\u001b\u202e\u2028', 'b\ufe00\u034f\u3164\u2800', 'c\u{e0041}\u{e0100}', '❤\ufe0f 😀'];
  const shown = formatJson(value);
  expect(shown).toBe(
    String.raw`["a\u001b\u202e\u2028","b\ufe00\u034f\u3164\u2800","c\udb40\udc41\udb40\udd00","❤️ 😀"]`,
  );
  expect(JSON.parse(shown)).toEqual(value);
});
