import { expect, test } from 'vitest';
import { tomlFormat } from '../../../src/cli/client/toml-format.ts';

const path = ['mcp_servers', 'ambit'];
const entry = { command: 'node', args: ['a "b"', 'c\\d'] };
const block = '[mcp_servers.ambit]\ncommand = "node"\nargs = ["a \\"b\\"", "c\\\\d"]\n';
const set = (text: string, value: typeof entry | undefined = entry) => tomlFormat.setEntry(text, path, value);

const others = `# mine
model = "gpt" # the model
text = """
[mcp_servers.ambit]
command = "not a table" """
big = 9223372036854775807
list = [
  "x", # ]
  [ "[mcp_servers.ambit]" ],
]

[mcp_servers.notes]
command = 'node' # '[
env = { KEY = "sk-1" }
`;

test('the table is added at the end, and everything else stays', () => {
  const after = set(others);
  expect(after).toBe(`${others}\n${block}`);
  expect(tomlFormat.readEntry(after, path)).toEqual(entry);
  expect(set(after)).toBe(after);
  expect(set('')).toBe(block);
  expect(set('a = 1\r\n')).toBe(`a = 1\r\n\r\n${block.replaceAll('\n', '\r\n')}`);
  expect(set('a = 1')).toBe(`a = 1\n\n${block}`);
});

test('the table and its sub-tables are replaced wherever they are', () => {
  const old = '[ mcp_servers . "ambit" ]\nurl = "http://h"\n\n[mcp_servers.ambit.env]\nKEY = "1"\n';
  const next = '\n# about the next\n[tui]\ntheme = "dark"\n\n';
  const scattered = `${others}${old}${next}[mcp_servers.ambit.tools.x]\non = true\n`;
  expect(set(scattered)).toBe(`${others}${block}${next}`);
  expect(set(scattered, undefined)).not.toContain('mcp_servers.ambit.env');
});

test.each([
  ['mcp_servers = { notes = { command = "x" } }\n', 'as a table of its own'],
  ['mcp_servers.ambit.command = "x"\n', 'as a table of its own'],
  ['[mcp_servers]\nambit = { command = "x" }\n', 'as a table of its own'],
  ['a = \n', 'not valid TOML: see line 1'],
])('%s is left alone', (before, reason) => {
  expect(() => set(before)).toThrow(reason);
});

test('masked text shows names, keys and the strings that are allowed', () => {
  const masked = tomlFormat.maskText(`${others}${block}`, new Set(['node', 'a "b"', 'c\\d']));
  expect(masked).not.toMatch(/sk-1|gpt|not a table|mine/);
  expect(masked).toContain('[mcp_servers.notes]\ncommand = …\nenv = …\n');
  expect(masked).toContain(block);
  expect(masked.split('\n')).toHaveLength(`${others}${block}`.split('\n').length);
});

test('lines of a long value that look like keys are hidden', () => {
  const text = 'args = [\n  "c2VjcmV0LTE=",\n]\nkey = """\nc2VjcmV0LTI=\nSECRET = 3\n"""\n[next]\n'.replaceAll(
    '\\"',
    '"',
  );
  expect(tomlFormat.maskText(text, new Set())).toBe('args = …\n…\n…\nkey = …\n…\n…\n…\n[next]\n');
});
