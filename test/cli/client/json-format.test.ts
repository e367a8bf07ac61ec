import fc from 'fast-check';
import { expect, test } from 'vitest';
import { addListItem, jsonFormat, removeListItem } from '../../../src/cli/client/json-format.ts';

const path = ['mcpServers', 'ambit'];
const entry = { command: 'node', args: ['a', 'b'] };
const add = (text: string) => jsonFormat.setEntry(text, path, entry);

test('comments, order, trailing commas and indentation stay, and a comment stays beside its server', () => {
  const before = `// mine
{
\t"theme": "dark", // night
\t"mcpServers": {
\t\t/* the notes
\t\t   of the team */
\t\t"notes": { "command": "node", }, // keep
\t\t// "old": {},
\t},
}
`;
  const after = add(before);
  expect(after).toBe(
    before.replace(
      '}, // keep\n',
      '}, // keep\n\t\t"ambit": {\n\t\t\t"command": "node",\n\t\t\t"args": [\n\t\t\t\t"a",\n\t\t\t\t"b"\n\t\t\t]\n\t\t},\n',
    ),
  );
  expect(jsonFormat.readEntry(after, path)).toEqual(entry);
  expect(jsonFormat.readEntry(jsonFormat.setEntry(after, path, undefined), path)).toBeUndefined();
});

test.each([
  ['without a comma', '{\n  "mcpServers": {\n    "a": {} // last\n  }\n}\n', '"a": {}, // last\n    "ambit": {'],
  ['in one line', '{"mcpServers":{"a":{}}}', '{"a":{}, "ambit": {"command":"node","args":["a","b"]}}'],
  ['an empty map with a comment', '{\n    "mcpServers": {\n        // none\n    }\n}', '// none\n        "ambit": {'],
  ['no map', '{\n  "theme": "dark"\n}\n', '"theme": "dark",\n  "mcpServers": {\n    "ambit": {\n      "command"'],
  ['CRLF', '{\r\n  "theme": "dark"\r\n}\r\n', '"theme": "dark",\r\n  "mcpServers": {\r\n    "ambit": {\r\n'],
  ['a byte order mark', '\uFEFF{\n  "a": 1\n}\n', '\uFEFF{\n  "a": 1,\n  "mcpServers": {'],
  ['an empty object', '{}', '{\n  "mcpServers": {\n    "ambit": {'],
  ['an empty file', '', '{\n  "mcpServers": {\n    "ambit": {'],
  ['an entry already', '{ "mcpServers": { "ambit": { "command": "x" }, "b": {} } }', '"args":["a","b"]}, "b": {}'],
])('%s', (_, before, expected) => {
  expect(add(before)).toContain(expected);
  expect(add(add(before))).toBe(add(before));
});

test.each([
  ['[]', 'not a JSON object'],
  ['{ "mcpServers": [] }', '"mcpServers" in it is not an object'],
  ['{ "mcpServers": {}, "mcpServers": {} }', 'more than once'],
  ['{\n "a": \n}', 'not valid JSON: see line 3'],
])('%s is left alone', (before, reason) => {
  expect(() => add(before)).toThrow(reason);
});

test('any file keeps everything but the entry', () => {
  const keys = fc.constantFrom('mcpServers', 'a', 'b"', 'ambit', 'ü');
  const servers = fc.dictionary(keys, fc.jsonValue({ maxDepth: 1 }), { maxKeys: 3 });
  const files = fc.record({ mcpServers: servers, other: fc.jsonValue() }, { requiredKeys: [] });
  fc.assert(
    fc.property(files, fc.constantFrom(undefined, 1, 2, 4, '\t'), (file, indent) => {
      const before = JSON.stringify(file, undefined, indent);
      const read = JSON.parse(before) as typeof file;
      const expected = { ...read, mcpServers: { ...read.mcpServers, ambit: entry } };
      expect(JSON.parse(add(before))).toEqual(expected);
    }),
  );
});

test('an item of a list is added once and removed again', () => {
  const before = '{\n  "inputs": [\n    // asked once\n    { "id": "a" }\n  ]\n}\n';
  const after = addListItem(before, 'inputs', { id: 'b' });
  expect(after).toContain('// asked once\n    { "id": "a" }');
  expect(JSON.parse(after.replace('// asked once', ''))).toEqual({ inputs: [{ id: 'a' }, { id: 'b' }] });
  expect(addListItem(after, 'inputs', { id: 'b' })).toBe(after);
  expect(jsonFormat.readEntry(removeListItem(after, 'inputs', 'b'), ['inputs'])).toEqual([{ id: 'a' }]);
});

test.each([
  '{"inputs": [{ "id": "a" }, // asked once\n]}',
  '{"inputs": [{ "id": "a" } // asked once\n]}',
  '{ "inputs": [ /* c */ { "id": "a" // x\n  }] }',
  '\uFEFF{ "inputs" :\n// "inputs": [\n[ { "id": "a" }] }',
])('with comments in any place, a list keeps its other items: %j', (before) => {
  const after = addListItem(before, 'inputs', { id: 'b' });
  expect(jsonFormat.readEntry(after, ['inputs'])).toEqual([{ id: 'a' }, { id: 'b' }]);
  expect(jsonFormat.readEntry(removeListItem(after, 'inputs', 'b'), ['inputs'])).toEqual([{ id: 'a' }]);
});

test('a member behind a comment does not become part of it', () => {
  const after = add('{"mcpServers": {"a": {}, // last\n}}');
  expect(jsonFormat.readEntry(after, path)).toEqual(entry);
});

test('masked text shows keys and the strings that are allowed', () => {
  const text = '{ "ambit": "stdio", /* sk-1\n sk-1 */ "b": { "KEY": "sk-1" } // sk-1\n}';
  expect(jsonFormat.maskText(text, new Set(['stdio']))).toBe(
    '{ "ambit": "stdio", /* …\n */ "b": { "KEY": "…" } // …\n}',
  );
});

// Quadratic work takes minutes here, so the time limit of the test tells.
test('a file of megabytes is masked in linear time', () => {
  const list = Array.from({ length: 60_000 }, (_, i) => `"entry ${i} ${'x'.repeat(60)}"`);
  const masked = jsonFormat.maskText(`[${list.join(',\n')}]`, new Set());
  expect(masked).toBe(`[${list.map(() => '"…"').join(',\n')}]`);
});
