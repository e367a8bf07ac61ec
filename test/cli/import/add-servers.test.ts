import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { addServers } from '../../../src/cli/import/add-servers.ts';

const additions = [
  { name: 'new', origin: 'cursor', entry: { command: 'x', args: ['a: b', '#c'], imported: 'cursor' } },
];
const block = '  new:\n    command: x\n    args:\n      - "a: b"\n      - "#c"\n    imported: cursor\n';

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
