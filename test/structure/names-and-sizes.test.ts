import { expect, test } from 'vitest';
import { readSourceFiles } from './source-files.ts';

const source = readSourceFiles('src');
const all = [...source, ...readSourceFiles('test'), ...readSourceFiles('bench'), ...readSourceFiles('scripts')];

test('files are named for what they do', () => {
  const vague = /(?:^|\/)(?:utils?|helpers?|misc|common|manager|service)[^/]*\.[jt]sx?$/;
  const named = all.map((file) => file.path);
  expect(named.filter((path) => vague.test(path))).toEqual([]);
  expect(named.filter((path) => !/^[a-z0-9./-]+$/.test(path))).toEqual([]);
});

test('files stay small', () => {
  const sizes = source.map((file) => file.lines).sort((a, b) => a - b);
  const median = sizes[Math.floor(sizes.length / 2)] ?? 0;
  const largest = [...source].sort((a, b) => b.lines - a.lines).slice(0, 5);
  const shown = largest.map((file) => `  ${String(file.lines).padStart(4)} ${file.path}`).join('\n');
  process.stdout.write(`\nsrc: ${source.length} files, median ${median} lines; the longest:\n${shown}\n`);
  expect(median).toBeLessThanOrEqual(145);
  // One table, a row for each way it can go wrong, and nothing else to read in it.
  const table = 'src/errors.ts';
  expect(all.filter((file) => file.lines > 400 && file.path !== table).map((file) => file.path)).toEqual([]);
});

test('nothing is exported by default', () => {
  expect(source.filter((file) => /^export default/m.test(file.text)).map((file) => file.path)).toEqual([]);
});

test('nothing is left open', () => {
  const open = /\b(?:TODO|FIXME|XXX)\b|\.(?:only|skip)\(|it\.todo/;
  const mine = 'test/structure/names-and-sizes.test.ts';
  expect(all.filter((file) => file.path !== mine && open.test(file.text)).map((file) => file.path)).toEqual([]);
});
