import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { newerNode } from '../../tools/newer-node.ts';
import { type Account, canChange, ordinary, own } from '../../workspaces/saferoot/accounts.ts';
import {
  type Call,
  enough,
  openAmbitServer,
  openPublishedServer,
  type Raced,
  raceAgainstTools,
} from './race-against-tools.ts';

const ms = counts(300, 60_000);
const session = 'current';
const path = 'a/d/f.txt';

/**
 * Whoever deletes or moves first makes what is deleted or moved: the swapper removes a folder that was made while there was
 * none, with all that was moved there.
 */
const tools: Readonly<Record<string, readonly Call[]>> = {
  read: [['session_read_file', { session, path }]],
  info: [['session_file_info', { session, path }]],
  edit: [
    ['session_edit_file', { session, path: 'a/d/sub/f.txt', edits: [{ oldText: 'inside', newText: 'INSIDE' }] }],
    ['session_edit_file', { session, path: 'a/d/sub/f.txt', edits: [{ oldText: 'INSIDE', newText: 'inside' }] }],
  ],
  create: [['session_edit_file', { session, path: 'a/d/fresh/new.txt', content: 'inside' }]],
  list: [['session_list_dir', { session, path: 'a/d', depth: 3 }]],
  delete: [
    ['session_edit_file', { session, path: 'a/d/prey/x.txt', content: 'inside' }, 'prepares'],
    ['session_delete_file', { session, path: 'a/d/prey', recursive: true }],
  ],
  move: [
    ['session_edit_file', { session, path: 'a/d/g.txt', content: 'inside' }, 'prepares'],
    ['session_move_file', { session, from: 'a/d/g.txt', to: 'a/d/sub/g.txt', overwrite: true }],
    ['session_move_file', { session, from: 'a/d/sub/g.txt', to: 'a/d/g.txt', overwrite: true }],
  ],
  'file search': [['session_file_search', { session, pattern: '**/*.txt', path: 'a' }]],
  grep: [['session_grep_search', { session, pattern: 'inside|SECRET', path: 'a' }]],
};

function show(title: string, results: Readonly<Record<string, Raced>>): void {
  const rows = Object.entries(results).map(
    ([name, { tries, done, leaks }]) => `  ${name.padEnd(12)} ${tries} tries, ${done} done, ${leaks} leaked`,
  );
  process.stdout.write(`\n${title}\n${rows.join('\n')}\n`);
}

const thisNode = () => process.execPath;
const other = canChange ? ordinary : own;
const crossed: readonly (readonly [string, Account, () => string])[] = [
  ['this account on this Node', own, thisNode],
  ['an ordinary account on a newer Node', other, newerNode],
];
const rest: typeof crossed = [
  ['this account on a newer Node', own, newerNode],
  ['an ordinary account on this Node', other, thisNode],
];

test.each(proof ? [...crossed, ...rest] : crossed)(
  'W3: as %s, no tool is led out by a folder that is swapped for a link',
  async (title, account, node) => {
    const open: typeof openAmbitServer = (scene, as) => openAmbitServer(scene, as, node());
    const { results, swapped, before, after } = await raceAgainstTools(open, tools, { account, ms });
    show(`Ambit, as ${title}`, results);
    expect(swapped, 'the swapper swapped to the end').toBe(true);
    expect(after).toEqual(before);
    for (const [name, { done, leaks }] of Object.entries(results)) {
      expect(leaks, name).toBe(0);
      expect(done, name).toBeGreaterThanOrEqual(enough);
    }
  },
);

test('the same attack succeeds against the published filesystem server, so it can find a leak', async () => {
  const published = (inside: string): Readonly<Record<string, readonly Call[]>> => ({
    read: [['read_text_file', { path: join(inside, path) }]],
    create: [['write_file', { path: join(inside, 'a/d/fresh.txt'), content: 'inside' }]],
  });
  let inside = '';
  const calls = { read: [], create: [] } as Record<string, Call[]>;
  const { results, before, after } = await raceAgainstTools(
    (scene) => {
      inside = scene.inside();
      for (const [name, list] of Object.entries(published(inside))) calls[name]?.push(...list);
      return openPublishedServer(scene);
    },
    calls,
    // On a busy machine the gap is hit more rarely, but it is hit.
    {
      ms: counts(0, ms),
      isEnough: (name, { leaks }, scene) => (name === 'read' ? leaks > 0 : existsSync(scene.outside('fresh.txt'))),
    },
  );
  show('The published server', results);
  expect(results['read']?.leaks).toBeGreaterThan(0);
  expect(after).not.toEqual(before);
});
