import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { compileGlob } from '../../../src/lib/text/glob.ts';
import { parseExpression } from '../../../src/workspaces/search/expression.ts';
import { grepFiles } from '../../../src/workspaces/search/grep.ts';
import { findFiles } from '../../../src/workspaces/search/walk-files.ts';
import type { SessionFiles } from '../../../src/workspaces/session-files.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { makeFolder } from './make-folder.ts';
import { createSandboxedRipgrep, openFiles } from './open-files.ts';

const ripgrep = createSandboxedRipgrep();

interface Asked {
  readonly path?: string;
  readonly glob?: string;
  readonly caseSensitive?: boolean;
  readonly contextLines?: number;
  readonly limit?: number;
}

async function searchFiles(files: SessionFiles, pattern: string, asked: Asked = {}) {
  const { path = '.', glob, caseSensitive = true, contextLines = 0, limit = 100 } = asked;
  return grepFiles(files, {
    expression: parseExpression(pattern, caseSensitive),
    path,
    glob: glob === undefined ? undefined : compileGlob(glob, { matchAnyFolder: true }),
    contextLines,
    limit,
  });
}

async function findLines(files: SessionFiles, pattern: string, asked: Asked = {}) {
  const found = await searchFiles(files, pattern, asked);
  return found.files.flatMap(({ path, matches }) =>
    matches.map(({ line, column, text }) => `${path}:${line}:${column}:${text}`),
  );
}

const ways = [
  ['by reading', undefined],
  ...(hasBwrap() ? [['by ripgrep in a sandbox', ripgrep] as const] : []),
] as const;

describe.each(ways)('lines of files, %s', (_, quick) => {
  test('are found in the order of their paths, with columns', async () => {
    const files = openFiles(
      makeFolder({ 'b.txt': 'x\nneedle\n', 'a/z.txt': 'a needle, a needle', 'a.txt': 'Needle\r\nneedle\r\n' }),
      quick,
    );
    expect(await findLines(files, 'needle')).toEqual([
      'a/z.txt:1:3:a needle, a needle',
      'a.txt:2:1:needle',
      'b.txt:2:1:needle',
    ]);
    expect(await findLines(files, '^needle$', { caseSensitive: false })).toEqual([
      'a.txt:1:1:Needle',
      'a.txt:2:1:needle',
      'b.txt:2:1:needle',
    ]);
    expect(await findLines(files, 'needle', { path: 'a' })).toEqual(['a/z.txt:1:3:a needle, a needle']);
    expect(await findLines(files, 'needle', { path: './b.txt' })).toEqual(['b.txt:2:1:needle']);
    expect(await findLines(files, 'needle', { glob: 'a/*' })).toEqual(['a/z.txt:1:3:a needle, a needle']);
    expect(await findLines(files, 'needle', { path: 'a', glob: 'z.{md,txt}' })).toEqual([
      'a/z.txt:1:3:a needle, a needle',
    ]);
    expect(await findLines(files, 'needle', { glob: '[a]*.t?t' })).toEqual(['a.txt:2:1:needle']);
    expect(await findLines(files, 'nothing like it')).toEqual([]);
  });

  test('ignored files are skipped unless searched directly, and the repository always', async () => {
    const files = openFiles(
      makeFolder({
        '.gitignore': 'node_modules/\n*.log\n!keep.log\n/top\n',
        '.git/config': 'needle',
        '.git/info/exclude': 'excluded\n',
        'node_modules/x.js': 'needle',
        'a.log': 'needle',
        'keep.log': 'needle',
        top: 'needle',
        'sub/top': 'needle',
        excluded: 'needle',
        '.hidden/x': 'needle',
        'sub/.gitignore': '!*.log\nown\n',
        'sub/b.log': 'needle',
        'sub/own': 'needle',
        own: 'needle',
      }),
      quick,
    );
    const found = ['.hidden/x', 'keep.log', 'own', 'sub/b.log', 'sub/top'];
    expect(await findLines(files, 'needle')).toEqual(found.map((path) => `${path}:1:1:needle`));
    expect(await findLines(files, 'needle', { path: 'sub' })).toEqual(['sub/b.log:1:1:needle', 'sub/top:1:1:needle']);
    expect(await findLines(files, 'needle', { glob: '*.log' })).toEqual([
      'keep.log:1:1:needle',
      'sub/b.log:1:1:needle',
    ]);
    expect(await findLines(files, 'needle', { path: 'node_modules' })).toEqual(['node_modules/x.js:1:1:needle']);
    expect(await findLines(files, 'needle', { path: '.git' })).toEqual(['.git/config:1:1:needle']);
  });

  test('W3: special files do not stop a search, by whatever name, and say nothing of what is ignored', async () => {
    const folder = makeFolder({
      'a/needle': 'needle',
      'b/needle': 'needle',
      'b/rules': 'needle\n',
      'c/.gitignore/needle': 'needle',
      'd [*]/.gitignore': 'x\n!y\n',
      'd [*]/x': 'needle',
      'd [*]/e/y': 'needle',
      '.git/info/': '',
    });
    for (const name of ['.gitignore', '.ignore', '.rgignore', '.git/info/exclude', 'pipe', 'd [*]/e/.gitignore']) {
      execFileSync('mkfifo', [join(folder, name)]);
    }
    // Git does not follow a link there either.
    symlinkSync('rules', join(folder, 'b/.gitignore'));
    symlinkSync('nowhere', join(folder, 'a/.gitignore'));
    const files = openFiles(folder, quick);
    const found = ['a/needle', 'b/needle', 'b/rules', 'c/.gitignore/needle', 'd [*]/e/y'];
    const lines = found.map((path) => `${path}:1:1:needle`);
    expect(await findLines(files, 'needle')).toEqual(lines);
    expect(await findLines(files, 'needle', { path: 'd [*]' })).toEqual(lines.slice(-1));
    const all = await findFiles(files, { glob: compileGlob('**'), path: '.', limit: 100 });
    expect(all.files.map(({ path }) => path)).toEqual(expect.arrayContaining(found));
    for (const path of ['.gitignore', 'pipe']) {
      await expect(searchFiles(files, 'needle', { path })).rejects.toMatchObject({ code: 'FILE_WRONG_KIND' });
      await expect(files.open(path)).rejects.toMatchObject({ code: 'FILE_WRONG_KIND' });
    }
  });

  test('W7: what is hidden from sessions is never found, however it is written', async () => {
    const folder = makeFolder({
      '.env': 'needle',
      '.ENV.Local': 'needle',
      'a/Server.PEM': 'needle',
      '.SSH/config': 'needle',
      '.env.example': 'needle',
      'secret/deep/er.txt': 'needle',
    });
    const files = openFiles(folder, quick, { hide: ['Secret'] });
    expect(await findLines(files, 'needle')).toEqual(['.env.example:1:1:needle']);
    for (const path of ['.env', 'secret/deep', '.SSH']) {
      await expect(searchFiles(files, 'needle', { path })).rejects.toMatchObject({ code: 'PATH_PROTECTED' });
    }
  });

  test('files that are not text, or too large, are passed over; those in other encodings are read', async () => {
    const files = openFiles(
      makeFolder({
        binary: 'needle\n\0',
        late: `needle\n${'x'.repeat(200_000)}\0`,
        large: `needle\n${'x\n'.repeat(5_300_000)}`,
        utf8: '\ufeffneedle',
        'utf16-le': Buffer.from('\ufeffa needle', 'utf16le'),
        'utf16-be': Buffer.from('\ufeffa needle', 'utf16le').swap16(),
        latin1: Buffer.from('caf\xe9 needle', 'latin1'),
        empty: '',
      }),
      quick,
    );
    expect(await findLines(files, 'needle')).toEqual([
      'latin1:1:6:caf\ufffd needle',
      'utf16-be:1:3:a needle',
      'utf16-le:1:3:a needle',
      'utf8:1:1:needle',
    ]);
    // Invalid bytes match nothing.
    expect(await findLines(files, 'caf.')).toEqual([]);
    expect(await findLines(files, 'caf[^x]')).toEqual([]);
    expect(await findLines(files, 'caf\\W')).toEqual([]);
  });

  test('unusual names are returned as they are', async () => {
    const names = ['a\nb', 'a\tb', ' ', '-rf', '*', '"', "'", 'ünï', '😀', '$(x)', 'a\\b', '{x}', '[y]'];
    const files = openFiles(makeFolder(Object.fromEntries(names.map((name) => [`${name}/${name}`, 'needle']))), quick);
    const found = await searchFiles(files, 'needle');
    expect(found.files.map(({ path }) => path).sort()).toEqual(names.map((name) => `${name}/${name}`).sort());
    const each = await Promise.all(names.map((name) => searchFiles(files, 'needle', { path: name })));
    expect(each.map(({ files: those }) => those.length)).toEqual(names.map(() => 1));
  });

  test('context lines are returned, also at the edges of the file', async () => {
    const files = openFiles(makeFolder({ a: '\n1\n2\nneedle\n4\n\n', b: 'needle', c: '\nneedle' }), quick);
    const [a, b, c] = (await searchFiles(files, 'needle', { contextLines: 5 })).files.map(({ matches }) => matches[0]);
    expect(a?.before.map(({ line, text }) => `${line}${text}`)).toEqual(['1', '21', '32']);
    expect(a?.after.map(({ line, text }) => `${line}${text}`)).toEqual(['54', '6']);
    expect([b?.before, b?.after]).toEqual([[], []]);
    expect(c?.before).toEqual([{ line: 1, text: '' }]);
    const [one] = (await searchFiles(files, 'needle', { contextLines: 1 })).files;
    expect(one?.matches[0]?.before).toEqual([{ line: 3, text: '2' }]);
  });

  test('a limit is kept, and reported only when there is more', async () => {
    const files = openFiles(makeFolder({ a: 'x\n'.repeat(10), b: 'x\n'.repeat(10) }), quick);
    const counted = async (limit: number) => {
      const { files: found, stopped } = await searchFiles(files, 'x', { limit });
      return [found.map(({ matches }) => matches.length), stopped];
    };
    expect(await counted(20)).toEqual([[10, 10], undefined]);
    expect(await counted(19)).toEqual([[10, 9], 'limit']);
    expect(await counted(10)).toEqual([[10], 'limit']);
    expect(await counted(3)).toEqual([[3], 'limit']);
  });

  test('huge lines and results are bounded', async () => {
    const long = `${'x'.repeat(20_000)}needle${'😀'.repeat(10_000)}`;
    const files = openFiles(
      makeFolder({
        long,
        longer: `${'y'.repeat(70_000)}needle\nneedle`,
        many: `needle${'z'.repeat(490)}\n`.repeat(5000),
      }),
      quick,
    );
    const found = await searchFiles(files, 'needle', { limit: 1000, contextLines: 20 });
    expect(found.stopped).toBe('limit');
    expect(JSON.stringify(found).length).toBeLessThan(1_000_000);
    expect(found.files[0]?.matches[0]?.text).toMatch(/^…x+needle(?:😀)+…$/u);
    expect(found.files[1]).toMatchObject({ path: 'longer', matches: [{ line: 2 }] });
  });
});

test.skipIf(!hasBwrap())('the sandbox found candidates each time', () => {
  expect(ripgrep.answers.names).toBeGreaterThan(10);
  expect(ripgrep.answers.nothing).toBe(0);
});
