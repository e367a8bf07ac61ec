import { expect, test } from 'vitest';
import { readSourceFiles } from './source-files.ts';

const files = readSourceFiles('src');

test('what is logged has a name that never changes: all that differs is in fields', () => {
  const calls = files.flatMap(({ path, text }) =>
    [...text.matchAll(/\blog\.(?:info|warn|debug)(?:\?\.)?\(\s*([^\s])/g)].map(([call, first]) => ({
      path,
      call,
      first,
    })),
  );
  expect(calls.length).toBeGreaterThan(15);
  const built = calls.filter(
    ({ path, first }) =>
      first !== "'" && !path.startsWith('src/observability/log/') && !path.startsWith('src/public/sdk/'),
  );
  expect(built).toEqual([]);
});

test('every event is in the reference', () => {
  const events = files
    .filter(({ path }) => !path.startsWith('src/observability/log/') && !path.startsWith('src/public/sdk/'))
    .flatMap(({ text }) =>
      [...text.matchAll(/\blog\.(?:info|warn|debug)(?:\?\.)?\(\s*'([^']+)'/g)].map((match) => match[1]),
    );
  const reference = readSourceFiles('docs/reference', /^logs\.md$/)[0]?.text ?? '';
  const rows = [...reference.matchAll(/^\| `([^`]+)` \| (?:debug|info|warn) \|/gm)].map((match) => match[1]);
  expect([...new Set(rows)].sort()).toEqual([...new Set(events)].sort());
});

test('every metric is in the reference, with its kind and labels, and nothing else is', () => {
  const text = files.find(({ path }) => path === 'src/observability/metrics/metrics.ts')?.text ?? '';
  const exported = [
    ...text.matchAll(/\bcreate(Counters|Gauges|Histograms)\(\s*'([a-z_]+)',\s*'[^']+',?\s*([^)]*)\)/g),
  ].map(
    ([, kind = '', name, rest = '']) =>
      `${name} ${kind.slice(0, -1).toLowerCase()} ${[...rest.matchAll(/'([a-z]+)'/g)].map((match) => match[1]).join(', ') || '–'}`,
  );
  const reference = readSourceFiles('docs/reference', /^metrics\.md$/)[0]?.text ?? '';
  const rows = [...reference.matchAll(/^\| `([a-z_]+)` \| (counter|gauge|histogram) \| ([^|]+) \|/gm)].map(
    ([, name, kind, labels = '']) => `${name} ${kind} ${labels.replaceAll('`', '').trim()}`,
  );
  expect(rows.sort()).toEqual(exported.sort());
  expect(exported.length).toBeGreaterThan(15);
});

test('the session goes from hand to hand: only the kit for tool authors keeps it in the air', () => {
  const ambient = files.filter(({ text }) => text.includes('AsyncLocalStorage') || text.includes('currentSession('));
  expect(ambient.filter(({ path }) => !path.startsWith('src/public/sdk/')).map(({ path }) => path)).toEqual([]);
});

test('words for people go through the log: nothing but it and the command line writes to stderr', () => {
  const writers = files
    .filter(({ text }) => /process\.stderr|\bconsole\.(?:log|info|warn|error|debug)\b/.test(text))
    .map(({ path }) => path);
  expect(writers.filter((path) => !/^src\/(?:cli|observability\/log|public\/sdk)\//.test(path))).toEqual([]);
});
