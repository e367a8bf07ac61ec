import { mkdirSync, renameSync, rmSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { openDatabase } from '../../../src/workspaces/backends/database/open-database.ts';
import { createPathRules } from '../../../src/workspaces/path-guard.ts';
import { counts } from '../../proof.ts';
import { codeIn } from '../../sessions/tools/test-sessions.ts';
import { makeFolder, writeFiles } from '../search/make-folder.ts';
import { openFiles, toSessionFiles } from '../search/open-files.ts';
import { createSearchTools, textOf } from './search-files.ts';

interface Entry {
  readonly path: string;
  readonly kind: string;
  readonly bytes: number | null;
  readonly modified: string | null;
  readonly ignored?: true;
  readonly closed?: true;
}
interface Page {
  readonly path: string;
  readonly entries: readonly Entry[];
  readonly next: string | null;
  readonly truncated: string | null;
}
interface Found {
  readonly files: readonly Entry[];
  readonly total: number;
  readonly truncated: string | null;
}

const pathsOf = (entries: readonly Entry[]) => entries.map(({ path }) => path);

describe('session_list_dir', () => {
  test('W1: a tree with kinds and sizes, without what is ignored', async () => {
    const folder = makeFolder({
      '.gitignore': 'node_modules\n',
      'node_modules/x/y.js': 'x',
      '.git/config': 'x',
      '.env': 'secret',
      'src/deep/er/x.ts': 'x',
      'src/a.ts': 'x'.repeat(2048),
      'empty/': '',
    });
    symlinkSync('src', join(folder, 'link'));
    symlinkSync('/etc/passwd', join(folder, 'out'));
    const { call, data } = createSearchTools(openFiles(folder));
    expect(textOf(await call('list_dir'))).toBe(
      [
        './',
        '.env (closed)',
        '.gitignore (13 B)',
        'empty/',
        'link (link)',
        'out (link)',
        'src/',
        '  a.ts (2.0 KiB)',
        '  deep/',
      ].join('\n'),
    );
    const { entries, next, truncated } = await data<Page>('list_dir', { path: './src/', depth: 20 });
    expect(pathsOf(entries)).toEqual(['src/a.ts', 'src/deep', 'src/deep/er', 'src/deep/er/x.ts']);
    expect(entries[0]).toEqual({ path: 'src/a.ts', kind: 'file', bytes: 2048, modified: expect.stringMatching(/Z$/) });
    expect([next, truncated]).toEqual([null, null]);
    const all = await data<Page>('list_dir', { includeIgnored: true, depth: 20 });
    const told = all.entries.filter(({ ignored }) => ignored).map(({ path }) => path);
    expect(told).toEqual(['.git', 'node_modules', 'node_modules/x', 'node_modules/x/y.js']);
    expect(all.entries.find(({ path }) => path === '.env')).toMatchObject({ closed: true, bytes: null });
    expect(pathsOf((await data<Page>('list_dir', { path: 'link' })).entries)).toContain('src/a.ts');
    expect(textOf(await call('list_dir', { path: 'empty' }))).toBe('empty/\n(nothing)');
  });

  test('W8: what cannot be listed is refused with what to do, and no path of the host', async () => {
    const folder = makeFolder({ file: 'x', '.env': 'x' });
    symlinkSync('..', join(folder, 'up'));
    const { call } = createSearchTools(openFiles(folder));
    const refused: Record<string, string> = {
      '..': 'PATH_VIOLATION',
      up: 'PATH_VIOLATION',
      [folder]: 'PATH_VIOLATION',
      '/etc': 'PATH_VIOLATION',
      file: 'FILE_WRONG_KIND',
      gone: 'FILE_NOT_FOUND',
      '.env': 'PATH_PROTECTED',
      'a\0b': 'PATH_INVALID',
    };
    for (const tool of ['list_dir', 'file_search', 'grep_search']) {
      for (const [path, code] of Object.entries(refused)) {
        if (tool === 'grep_search' && path === 'file') continue;
        const result = await call(tool, { path, ...(tool === 'list_dir' ? {} : { pattern: 'x' }) });
        expect(codeIn(result), `${tool} ${path}`).toBe(code);
        expect(textOf(result)).not.toContain(folder);
      }
    }
    expect(codeIn(await call('list_dir', { cursor: 'not one of ours' }))).toBe('REQUEST_INVALID');
    expect(codeIn(await call('list_dir', { depth: 0 }))).toBe('REQUEST_INVALID');
  });

  test('pages go on where they were, whatever is made or removed meanwhile', async () => {
    const names = Array.from({ length: 800 }, (_, n) => `d${n % 3}/f${String(n).padStart(4, '0')}`);
    const folder = makeFolder(Object.fromEntries(names.map((name) => [name, ''])));
    const { call, data } = createSearchTools(openFiles(folder));
    const first = await data<Page>('list_dir', {});
    expect(first.entries).toHaveLength(500);
    expect(textOf(await call('list_dir', {}))).toContain('pass "next" as the cursor');
    const last = first.entries.at(-1)?.path as string;
    // The one it stopped at is gone, what comes before is new, and so is something that comes after.
    rmSync(join(folder, last));
    writeFiles(folder, { 'd0/a-new': '', 'd2/z-new': '' });
    const seen = pathsOf(first.entries);
    for (let next = first.next; next !== null; ) {
      const page = await data<Page>('list_dir', { cursor: next });
      seen.push(...pathsOf(page.entries));
      next = page.next;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.filter((path) => path.includes('/f')).sort()).toEqual(names.sort());
    expect(seen).toContain('d2/z-new');
    // A whole folder may be gone, too.
    renameSync(join(folder, 'd1'), join(folder, 'moved'));
    const page = await data<Page>('list_dir', { cursor: first.next });
    expect(pathsOf(page.entries)[0]).toBe('d2');
    const text = textOf(await call('list_dir', { cursor: first.next }));
    expect(text).toMatch(/^\.\/\nd2\/\n {2}f/);
  });

  test('a name cannot fake another line of the answer', async () => {
    const folder = makeFolder({ 'a\n[The limit is reached': 'x', 'b\u202egpj.exe': 'x\u2028needle' });
    const { call } = createSearchTools(openFiles(folder));
    for (const [tool, args] of [
      ['list_dir', {}],
      ['file_search', { pattern: '*' }],
      ['grep_search', { pattern: 'x' }],
    ] as const) {
      const text = textOf(await call(tool, args));
      expect(text).toContain('a\\u000a[The limit');
      expect(text).not.toMatch(/\u202e|\u2028/);
    }
  });
});

describe('session_file_search', () => {
  test('W1: those changed last come first, and what is ignored or closed is not opened by it', async () => {
    const folder = makeFolder({ '.gitignore': 'out\n', 'a.ts': 'x', 'src/b.ts': 'xx', 'out/c.ts': 'x', '.env': 'x' });
    utimesSync(join(folder, 'a.ts'), 1000, 1000);
    utimesSync(join(folder, 'src/b.ts'), 2000, 2000);
    symlinkSync('a.ts', join(folder, 'src/l.ts'));
    const { call, data } = createSearchTools(openFiles(folder));
    const { files, total, truncated } = await data<Found>('file_search', { pattern: '**/*.ts' });
    expect(pathsOf(files)).toEqual(['src/l.ts', 'src/b.ts', 'a.ts']);
    expect(files[1]).toEqual({ path: 'src/b.ts', kind: 'file', bytes: 2, modified: new Date(2_000_000).toISOString() });
    expect([total, truncated]).toEqual([3, null]);
    expect(textOf(await call('file_search', { pattern: '*.ts', limit: 1 }))).toMatch(/^src\/l\.ts\n\[The limit/);
    expect(pathsOf((await data<Found>('file_search', { pattern: './b.*', path: 'src' })).files)).toEqual(['src/b.ts']);
    expect((await data<Found>('file_search', { pattern: '.env' })).files).toMatchObject([
      { path: '.env', closed: true },
    ]);
    expect(textOf(await call('file_search', { pattern: 'nope' }))).toBe('No file matches.');
    expect(codeIn(await call('file_search', { pattern: '{a' }))).toBe('REQUEST_INVALID');
  });

  test('links are not followed, so that none leads round in a circle', async () => {
    const folder = makeFolder({ 'a/b/f': 'x' });
    symlinkSync('..', join(folder, 'a/b/up'));
    symlinkSync('.', join(folder, 'self'));
    const { data } = createSearchTools(openFiles(folder));
    expect(pathsOf((await data<Found>('file_search', { pattern: '**' })).files).sort()).toEqual([
      'a/b/f',
      'a/b/up',
      'self',
    ]);
  });

  test('thousands of files, and folders deeper than anyone goes, are bounded', async () => {
    const folder = makeFolder({});
    const many = counts(2000, 10_000);
    for (let n = 0; n < many; n++) {
      if (n % 1000 === 0) mkdirSync(join(folder, `d${n / 1000}`));
      writeFileSync(join(folder, `d${Math.floor(n / 1000)}/f${n}`), '');
    }
    mkdirSync(join(folder, 'deep/'.repeat(100)), { recursive: true });
    const { data } = createSearchTools(openFiles(folder));
    const found = await data<Found>('file_search', { pattern: '*', limit: 1000 });
    expect(found.files).toHaveLength(1000);
    expect(found.total).toBe(many);
    expect(found.truncated).toBe('depth');
    expect((await data<Found>('file_search', { pattern: 'd1/f19*9' })).total).toBe(10);
  });
});

describe('session_grep_search', () => {
  test('W1: lines with where they are, and those around them once', async () => {
    const folder = makeFolder({ a: '1\n2 x\n3\n4 x\n5\n6\n7\n8\n9 x\n', 'b/c': 'X\r\n' });
    const { call, data } = createSearchTools(openFiles(folder));
    const { matches } = await data<{ matches: object[] }>('grep_search', { pattern: 'x$' });
    expect(matches).toEqual([
      { path: 'a', line: 2, column: 3, text: '2 x' },
      { path: 'a', line: 4, column: 3, text: '4 x' },
      { path: 'a', line: 9, column: 3, text: '9 x' },
    ]);
    const text = textOf(await call('grep_search', { pattern: 'X', caseSensitive: false, contextLines: 1 }));
    expect(text).toBe(
      ['a', '1- 1', '2: 2 x', '3- 3', '4: 4 x', '5- 5', '--', '8- 8', '9: 9 x', '', 'b/c', '1: X'].join('\n'),
    );
    expect(textOf(await call('grep_search', { pattern: 'nope' }))).toBe('No line matches.');
    expect(textOf(await call('grep_search', { pattern: 'x', limit: 1 }))).toMatch(/^a\n2: 2 x\n\[The limit is reached/);
  });

  test('W8: a pattern that cannot be searched for says where, and what to do', async () => {
    const { call } = createSearchTools(openFiles(makeFolder({ a: 'x' })));
    const result = await call('grep_search', { pattern: 'foo(?=bar)' });
    expect(codeIn(result)).toBe('REQUEST_INVALID');
    expect(textOf(result)).toContain('at character 4 ("(?=bar)")');
    expect(codeIn(await call('grep_search', { pattern: 'x', glob: '[' }))).toBe('REQUEST_INVALID');
  });

  test('patterns and files that are meant to hang are answered', async () => {
    const folder = makeFolder({
      a: `${'a'.repeat(60_000)}!\n`.repeat(20),
      '.gitignore': `${'*a'.repeat(100)}b\n`.repeat(200),
    });
    const { data } = createSearchTools(openFiles(folder));
    for (const pattern of ['(a+)+$', '(a|aa)*b', '(.*)*=', `(a?){300}a{300}$`]) {
      await data('grep_search', { pattern });
    }
  });
});

test('W5: files that lie in the store are listed, found and searched alike', async () => {
  const store = openMemoryStore();
  onTestFinished(() => store.close());
  const backend = openDatabase(store.documents, 'ws', { rules: createPathRules({ hide: [], keep: [], open: [] }) });
  onTestFinished(() => backend.close());
  const { call, data } = createSearchTools(toSessionFiles(backend));
  const owner = openDatabase(store.documents, 'ws', { rules: { hidden: [], kept: [], open: [] } });
  for (const path of ['.gitignore', 'src/a.ts', 'src/b.log', '.env']) await owner.write(path, Buffer.from('*.log'));
  await owner.close();
  expect(textOf(await call('list_dir'))).toBe('./\n.env (closed)\n.gitignore (5 B)\nsrc/\n  a.ts (5 B)');
  expect(pathsOf((await data<Found>('file_search', { pattern: 'src/*' })).files)).toEqual(['src/a.ts']);
  expect(textOf(await call('grep_search', { pattern: '\\.log$' }))).toBe('.gitignore\n1: *.log\n\nsrc/a.ts\n1: *.log');
});
