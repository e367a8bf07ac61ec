import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, expect, test } from 'vitest';
import { differences, linesOf } from '../../../src/lib/text/line-diff.ts';
import { mergeLines } from '../../../src/lib/text/merge-lines.ts';
import { unifiedDiff } from '../../../src/lib/text/unified-diff.ts';
import { asText } from '../../../src/workspaces/session-folders/original-content.ts';
import { counts } from '../../proof.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-lines-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const line = fc.constantFrom('a', 'b', 'c', 'd', '', '+', '-', '@@ -1 +1 @@', '\\ No newline at end of file', 'é');
const someText = fc
  .tuple(fc.array(line, { maxLength: 14 }), fc.boolean())
  .map(([lines, whole]) => lines.join('\n') + (whole && lines.length > 0 ? '\n' : ''));

test('the differences lead from one text to the other', () => {
  fc.assert(
    fc.property(someText, someText, (before, after) => {
      const [old, fresh] = [linesOf(before), linesOf(after)];
      expect(old.join('')).toBe(before);
      let [made, done] = ['', 0];
      for (const { from, to, start, end } of differences(old, fresh)) {
        made += old.slice(done, from).join('') + fresh.slice(start, end).join('');
        done = to;
      }
      expect(made + old.slice(done).join('')).toBe(after);
    }),
    { numRuns: counts(400, 20_000) },
  );
});

test('no shorter way is overlooked', () => {
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
      const [old, fresh] = [linesOf(before), linesOf(after)];
      const changed = differences(old, fresh).reduce(
        (sum, { from, to, start, end }) => sum + to - from + end - start,
        0,
      );
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
      const patch = `--- a/file\n+++ b/file\n${unifiedDiff(before, after).text}`;
      execFileSync('git', ['apply', '--unidiff-zero', '-'], { cwd: folder, input: patch, stdio: 'pipe' });
      expect(execFileSync('cat', [join(folder, 'file')]).toString()).toBe(after);
    }),
    { numRuns: counts(15, 800) },
  );
});

test('what git merges we merge to the same, and whatever it reports as a conflict is one', () => {
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
      // Git looks for lines that both added alike; we do not, so we may refuse where it does not, never the other way.
      if (git.status !== 0) expect(mine).toBeUndefined();
      else if (mine !== undefined) {
        both++;
        expect(mine).toBe(git.stdout.toString());
      }
    }),
    // The first example merges, whatever the seed.
    { numRuns: counts(30, 2000), examples: [['a\nb\nc\nd\ne\n', 'A\nb\nc\nd\ne\n', 'a\nb\nc\nd\nE\n']] },
  );
  expect(merged).toBeGreaterThan(0);
  expect(both).toBeGreaterThan(0);
});

test('one side alone is taken, equal changes too, and changes apart are joined', () => {
  const base = '1\n2\n3\n4\n5\n6\n7\n';
  expect(mergeLines(base, base, 'x\n')).toBe('x\n');
  expect(mergeLines(base, 'x\n', base)).toBe('x\n');
  expect(mergeLines(base, 'x\n', 'x\n')).toBe('x\n');
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('6', 'six'))).toBe('1\ntwo\n3\n4\n5\nsix\n7\n');
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('2', 'zwei'))).toBeUndefined();
  expect(mergeLines(base, base.replace('2', 'two'), base.replace('3', 'three'))).toBeUndefined();
});

test('texts that have nothing in common are still told apart in good time', () => {
  const [before, after] = ['a', 'b'].map((word) => Array.from({ length: 20_000 }, (_, i) => `${word}${i}\n`).join(''));
  const { added, removed } = unifiedDiff(before as string, after as string);
  expect([added, removed]).toEqual([20_000, 20_000]);
  // Lines that are nearly all alike leave the most ways to try.
  const alike = 'a\n'.repeat(150_000);
  const other = (word: string) => Array.from({ length: 400 }, (_, i) => `${word}${i}\n`).join('');
  expect(unifiedDiff(other('x') + alike + other('y'), `${other('y')}a\n${alike}${other('x')}`).added).toBeGreaterThan(
    800,
  );
});

test('texts of more lines than a call can have arguments are put together', () => {
  const base = Array.from({ length: 300_000 }, (_, i) => `${i}\n`).join('');
  const [ours, theirs] = [base.replace('\n5\n', '\nfive\n'), base.replace('\n299990\n', '\nnear the end\n')];
  expect(mergeLines(base, ours, theirs)).toBe(ours.replace('\n299990\n', '\nnear the end\n'));
});

test('a file of hardly anything but line breaks is not taken for text', () => {
  expect(asText(Buffer.from('a\n'.repeat(400_000)))).toBeDefined();
  expect(asText(Buffer.from('\n'.repeat(400_001)))).toBeUndefined();
});
