import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { addServers, removeServer } from '../../../src/config/edit/edit-servers.ts';

const additions = [
  { name: 'new', origin: 'cursor', entry: { command: 'x', args: ['a: b', '#c'], imported: 'cursor' } },
];
const block = '  new:\n    command: x\n    args: ["a: b", "#c"]\n    imported: cursor\n';

test.each([
  ['', `version: 1\nservers:\n${block}`],
  ['version: 1', `version: 1\nservers:\n${block}`],
  [
    'version: 1\nservers:\n  a: { command: [x] } # why\n',
    `version: 1\nservers:\n  a: { command: [x] } # why\n${block}`,
  ],
  ['version: 1\nservers:\n  a:\n    command: x', `version: 1\nservers:\n  a:\n    command: x\n${block}`],
  [
    'version: 1\nservers:\n      a: {command: x}\nlisten: {port:   1} # odd\n',
    `version: 1\nservers:\n      a: {command: x}\n${block.replace(/^ {2}/gm, '      ')}listen: {port:   1} # odd\n`,
  ],
])('lines are put in, and no other is touched (%#)', (before, after) => {
  expect(addServers(before, additions)).toBe(after);
});

test.each([
  'a\u2028b',
  'a\u2029b',
  '\u2028\u2029b',
  'a\rb',
  'a\u0085b',
  'a\n\n\u2028b\n',
  'a\n\u2028\n',
  'a\n\u00a0',
  'a\n\t',
  'a\n\n\t\n',
  'a\n  ',
])('whatever characters an argument has, no other line is touched (%j)', (arg) => {
  const before = 'version: 1\nservers:\n  a: {command:   x} # odd\nlisten: {port:   1}\n';
  const entry = { command: 'x', args: ['y'.repeat(60), arg] };
  const text = addServers(before, [{ name: 'new', origin: '', entry }]);
  const [head, tail] = before.split('listen') as [string, string];
  expect([text.startsWith(head), text.endsWith(`\nlisten${tail}`)]).toEqual([true, true]);
  expect(parse(text)).toMatchObject({ servers: { a: { command: 'x' }, new: entry } });
  expect(removeServer(text, 'new')).toBe(before);
});

test.each([
  'version: 1\nservers: { a: { command: x } } # why\n',
  'version: 1\nservers: {}\n',
  'version: 1\nservers:\n',
  '# top\nversion: 1\nservers:\n  a: &a { command: x }\n  b: *a\n',
  'version: 1\nservers:\n  a: { command: x }\n\n# about the rest\n\nlisten: { port: 1 }\n',
  'version: 1\r\nservers:\r\n  a: { command: x }\r\nlisten: { port: 1 }\r\n',
])('whatever the form, what was there stays and what is new is there (%#)', (before) => {
  const text = addServers(before, additions);
  const was = parse(before) as { servers: Record<string, unknown> | null };
  expect(parse(text)).toEqual({ ...was, servers: { ...was.servers, new: additions[0]?.entry } });
  for (const comment of before.match(/#.*/g) ?? []) expect(text).toContain(comment.trim());
});

test('invalid and unusual files are refused', () => {
  expect(() => addServers('version: 1\nservers: [a]\n', additions)).toThrow('cannot be added to');
  expect(() => addServers('{ version: 1 }', additions)).toThrow('neither block YAML nor plain JSON');
});

const commented = `# top
version: 1
servers: # mine
  # the notes of the team
  # and of others
  notes: { command: x } # keep
  # tracker, from the wiki
  tracker:
    command: y
    args:
      - "#a"
    # env: { A: b }

  # the last one
  z:
    url: https://h/mcp
# about the rest
listen: { port:   1 }
`;

test.each([
  ['notes', /^ {2}# the notes[\s\S]*?# keep\n/m],
  ['tracker', /^ {2}# tracker[\s\S]*?# env.*\n/m],
  ['z', /^ {2}# the last one\n {2}z:\n.*\n/m],
])('removing %s takes its lines and its comments, and no other', (name, lines) => {
  expect(removeServer(commented, name)).toBe(commented.replace(lines, ''));
});

test('adding and removing goes back to the start, also where it is the only server', () => {
  for (const before of ['version: 1\nservers: {} # none\n\n# rest\nlisten: { port: 1 }\n', commented]) {
    const text = addServers(before, additions);
    expect(text.split('\n').length).toBe(before.split('\n').length + 4);
    expect(removeServer(text, 'new')).toBe(before);
  }
});

test.each([
  'version: 1\nservers: { a: { command: x }, b: { command: y } } # why\n',
  '{"version":1,"servers":{"a":{"command":"x"},"b":{"command":"y"}}}',
  '{ version: 1, servers: { a: {command: x}, b: {command: y} } }',
  'version: 1\r\nservers:\r\n  a:\r\n    command: x\r\n  b: { command: y }\r\n',
  'version: 1\nservers:\n  ? a\n  : command: x\n  ? b\n  : command: y\n',
])('whatever the form, only the named server goes (%#)', (before) => {
  expect(parse(removeServer(before, 'a'))).toEqual({ version: 1, servers: { b: { command: 'y' } } });
});

test('a server that others refer to is refused', () => {
  expect(() => removeServer('version: 1\nservers:\n  a: &a { command: x }\n  b: *a\n', 'a')).toThrow('YAML alias');
});
