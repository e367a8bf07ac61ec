import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { diffLines, formatUnifiedDiff, mergeLines, splitLines } from '../../../src/lib/text/line-diff.ts';
import { decodeText } from '../../../src/workspaces/session-folders/original-files.ts';
import { counts } from '../../proof.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-lines-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const line = fc.constantFrom('a', 'b', 'c', 'd', '', '+', '-', '@@ -1 +1 @@', '\\ No newline at end of file', 'é');
const someText = fc
  .tuple(fc.array(line, { maxLength: 14 }), fc.boolean())
  .map(([lines, whole]) => lines.join('\n') + (whole && lines.length > 0 ? '\n' : ''));

test('applying the differences turns one text into the other', () => {
  fc.assert(
    fc.property(someText, someText, (before, after) => {
      const [old, fresh] = [splitLines(before), splitLines(after)];
      expect(old.join('')).toBe(before);
      let [made, done] = ['', 0];
      for (const { from, to, start, end } of diffLines(old, fresh)) {
        made += old.slice(done, from).join('') + fresh.slice(start, end).join('');
        done = to;
      }
      expect(made + old.slice(done).join('')).toBe(after);
    }),
    { numRuns: counts(200, 20_000) },
  );
});

test('the list of differences is the shortest', () => {
  const longestCommon = (a: string[], b: string[]): number => {
    let row = new Array<number>(b.length + 1).fill(0);
    for (const each of a) {
      const next = [0];
      for (let j = 0; j < b.length; j++) next.push(each === b[j] ? row[j]! + 1 : Math.max(row[j + 1]!, next[j]!));
      row = next;
    }
    return row.at(-1) as number;
  };
  fc.assert(
    fc.property(someText, someText, (before, after) => {
      const [old, fresh] = [splitLines(before), splitLines(after)];
      const changed = diffLines(old, fresh).reduce((sum, { from, to, start, end }) => sum + to - from + end - start, 0);
      expect(changed).toBe(old.length + fresh.length - 2 * longestCommon(old, fresh));
    }),
    { numRuns: counts(200, 10_000) },
  );
});

test('git applies a diff to the old text and gets the new one', () => {
  fc.assert(
    fc.property(someText, someText, (before, after) => {
      fc.pre(before !== after && before !== '' && after !== '');
      writeFileSync(join(folder, 'file'), before);
      const patch = `--- a/file\n+++ b/file\n${formatUnifiedDiff(before, after).text}`;
      execFileSync('git', ['apply', '--unidiff-zero', '-'], { cwd: folder, input: patch, stdio: 'pipe' });
      expect(execFileSync('cat', [join(folder, 'file')]).toString()).toBe(after);
    }),
    { numRuns: counts(15, 800) },
  );
});

test('merges equal those of git, and conflicts of git are conflicts here', () => {
  let [merged, both] = [0, 0];
  fc.assert(
    fc.property(someText, someText, someText, (base, ours, theirs) => {
      const files = Object.entries({ ours, base, theirs }).map(([name, text]) => {
        writeFileSync(join(folder, name), text);
        return join(folder, name);
      });
      const git = spawnSync('git', ['merge-file', '-p', '--quiet', ...files], { stdio: 'pipe' });
      const mine = mergeLines(base, ours, theirs);
      if (mine !== undefined) merged++;
      // Git also merges equal additions; we may refuse where git does not, never the other way.
      if (git.status !== 0) expect(mine).toBeUndefined();
      else if (mine !== undefined) {
        both++;
        expect(mine).toBe(git.stdout.toString());
      }
    }),
    { numRuns: counts(30, 2000), examples: [['a\nb\nc\nd\ne\n', 'A\nb\nc\nd\ne\n', 'a\nb\nc\nd\nE\n']] },
  );
  expect(merged).toBeGreaterThan(0);
  expect(both).toBeGreaterThan(0);
});

test('a change of one side, equal changes and separate changes are merged', () => {
  const base = '1\n2\n3\n4\n5\n6\n7\n';
  expect(mergeLines(base, base, 'x\n')).toBe('x\n');
  expect(mergeLines(base, 'x\n', base)).toBe('x\n');
  expect(mergeLines(base, 'x\n', 'x\n')).toBe('x\n');
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('6', 'six'))).toBe('1\ntwo\n3\n4\n5\nsix\n7\n');
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('2', 'zwei'))).toBeUndefined();
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('3', 'three'))).toBeUndefined();
});

test('texts without common lines are compared in time', () => {
  const [before, after] = ['a', 'b'].map((word) => Array.from({ length: 20_000 }, (_, i) => `${word}${i}\n`).join(''));
  const { added, removed } = formatUnifiedDiff(before as string, after as string);
  expect([added, removed]).toEqual([20_000, 20_000]);
  // Nearly equal lines give the most paths to try.
  const alike = 'a\n'.repeat(150_000);
  const other = (word: string) => Array.from({ length: 400 }, (_, i) => `${word}${i}\n`).join('');
  expect(
    formatUnifiedDiff(other('x') + alike + other('y'), `${other('y')}a\n${alike}${other('x')}`).added,
  ).toBeGreaterThan(800);
});

test('texts with more lines than a call can have arguments are merged', () => {
  const base = Array.from({ length: 300_000 }, (_, i) => `${i}\n`).join('');
  const [ours, theirs] = [base.replace('\n5\n', '\nfive\n'), base.replace('\n299990\n', '\nnear the end\n')];
  expect(mergeLines(base, ours, theirs)).toBe(ours.replace('\n299990\n', '\nnear the end\n'));
});

test('a file of almost only line breaks does not count as text', () => {
  expect(decodeText(Buffer.from('a\n'.repeat(400_000)))).toBeDefined();
  expect(decodeText(Buffer.from('\n'.repeat(400_001)))).toBeUndefined();
});
