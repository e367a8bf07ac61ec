import { expect, test } from 'vitest';
import { rankMatches } from '../../../src/workspaces/codebase/rank-matches.ts';
import { makeTree, openCodebase } from './open-codebase.ts';

test('S7: ranking large passages leaves time for other work', async () => {
  const read = Array.from({ length: 20 }, (_, file) => {
    const text = Array.from({ length: 2000 }, (_, at) => `zebra${(file * 2000 + at).toString(36)}Xy`).join(' ');
    return { path: `${file}.ts`, startLine: 1, endLine: 1, text, names: [], scope: '', shown: text };
  });
  let turns = 0;
  const count = () => {
    turns++;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  await rankMatches(read, { terms: ['zebra'], frequencies: { zebra: 20 }, passages: 20, limit: 50 });
  clearImmediate(next);
  expect(turns).toBeGreaterThan(3);
});

test('W1: a word that is also a property of all objects is ranked as others', async () => {
  const folder = makeTree({ 'a.ts': 'const other = constructor;\n', 'b.ts': 'constructor handles heron\n' });
  const { askAtOnce } = openCodebase(folder, { dataDir: '/dev/null' });
  const { matches } = await askAtOnce('constructor heron');
  expect(matches.map(({ path }) => path)).toEqual(['b.ts', 'a.ts']);
});
