import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import { makeTree, openCodebase } from './open-codebase.ts';

const word = 'quetzalcoatl';

/** Reads all bytes of all indexes. */
function readIndexes(dataDir: string): string {
  const folder = join(dataDir, 'search');
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join('');
}

test('S2: secret, hidden, ignored, binary and too large files are neither found nor in the index', async () => {
  const dataDir = makeTree({});
  const text = `const ${word} = 1;\n`;
  const folder = makeTree({
    '.env': text,
    'server.pem': text,
    'deploy/id_rsa': text,
    '.hidden/a.ts': text,
    'a/.b/c.ts': text,
    '.gitignore': 'built/\n*.log\n',
    'built/a.js': text,
    'a.log': text,
    'private/a.ts': text,
    'image.png': Buffer.from(`\0${text}`),
    'large.ts': text.repeat(60_000),
    'ordinary.ts': 'const ordinary = 1;\n',
  });
  const { ask } = openCodebase(folder, { dataDir, paths: { hide: ['private'] } });
  const { matches, index } = await ask(`ordinary ${word}`);
  expect(matches.map(({ path }) => path)).toEqual(['ordinary.ts']);
  expect(index.state).toBe('ready');
  const bytes = readIndexes(dataDir);
  expect(bytes).toContain('ordinary');
  expect(bytes).not.toContain(word);
});

test('S2: without an index, the same files are not found', async () => {
  const folder = makeTree({ '.env': word, '.hidden/a.ts': word, 'private/a.ts': word, 'a.ts': `${word} ordinary` });
  const { askAtOnce } = openCodebase(folder, { dataDir: '/dev/null', paths: { hide: ['private'] } });
  await expect(askAtOnce(word)).resolves.toMatchObject({
    matches: [{ path: 'a.ts' }],
    index: { state: 'unavailable' },
  });
});

test('W3: links lead nowhere, also when they take the place of an indexed file', async () => {
  const outside = makeTree({ 'secret.ts': `const ${word} = 1;\n`, 'folder/deep.ts': `const ${word} = 2;\n` });
  const folder = makeTree({ 'a.ts': `const ${word} = 'own';\n`, 'sub/deep.ts': `const ${word} = 'own';\n` });
  symlinkSync(join(outside, 'secret.ts'), join(folder, 'link.ts'));
  symlinkSync(outside, join(folder, 'linked'));
  const { ask, askAtOnce } = openCodebase(folder);
  const texts = (await ask(word)).matches.map(({ path, text }) => [path, text]);
  expect(texts).toEqual([['a.ts', `const ${word} = 'own';`]]);
  rmSync(join(folder, 'a.ts'));
  symlinkSync(join(outside, 'secret.ts'), join(folder, 'a.ts'));
  renameSync(join(folder, 'sub'), join(folder, 'gone'));
  symlinkSync(join(outside, 'folder'), join(folder, 'sub'));
  for (const { text } of (await askAtOnce(word)).matches) expect(text).toContain('own');
});

test('W9: two folders and two sets of rules have an index each', async () => {
  const dataDir = makeTree({});
  const [one, other] = [makeTree({ 'a.ts': 'const heron = 1;\n' }), makeTree({ 'a.ts': `const ${word} = 1;\n` })];
  expect(await openCodebase(one, { dataDir }).find(word)).toEqual([]);
  expect(await openCodebase(other, { dataDir }).find(word)).toEqual(['a.ts']);
  expect(await openCodebase(other, { dataDir, paths: { hide: ['a.ts'] } }).find(word)).toEqual([]);
  expect(await openCodebase(one, { dataDir }).find(word)).toEqual([]);
  expect(readdirSync(join(dataDir, 'search')).filter((name) => name.endsWith('.db'))).toHaveLength(3);
});

test('W3: hostile names and questions are only text', async () => {
  const names = [
    'a"); DROP TABLE file; --.ts',
    'new\nline.ts',
    '\u202egnp.ts',
    "it's.ts",
    'words MATCH *.ts',
    `${'x'.repeat(200)}.ts`,
  ];
  const tree = makeTree(Object.fromEntries(names.map((name) => [name, `const ${word} = 1; // ${name.length}\n`])));
  writeFileSync(Buffer.concat([Buffer.from(`${tree}/`), Buffer.from([0xff, 0xfe]), Buffer.from('.ts')]), word);
  const { ask, find } = openCodebase(tree);
  const { index } = await ask(word);
  expect(index).toMatchObject({ state: 'ready', files: names.length });
  for (const name of names) expect(await find(word, name), name).toEqual([name]);
  const questions = [
    '" OR path:a',
    'NEAR(a b)',
    'text : *',
    '"; DROP TABLE words; --',
    `{names} : ${word}`,
    '^a AND NOT b',
    '\0',
  ];
  for (const question of questions) expect(Array.isArray(await find(`${question} ${word}`)), question).toBe(true);
  expect((await ask(word)).index).toMatchObject({ state: 'ready', files: names.length });
});

test('S7: a file of one gigabyte is not read', async () => {
  const folder = makeTree({ 'huge.ts': `const ${word} = 1;\n`, 'small.ts': 'const small = 1;\n' });
  truncateSync(join(folder, 'huge.ts'), 1024 ** 3);
  const { ask } = openCodebase(folder);
  expect(await ask(`small ${word}`)).toMatchObject({
    matches: [{ path: 'small.ts' }],
    index: { state: 'ready', total: 1 },
  });
});

test('S7: a line of a megabyte, deep nesting of names and very many lines are indexed in bounded time', async () => {
  const { ask } = openCodebase(
    makeTree({
      'one-line.js': `const ${word} = "${'a,'.repeat(400_000)}";\n`,
      'words.js': `${'aB'.repeat(400_000)}\n`,
      'spaces.js': ' '.repeat(900_000),
      'lines.js': '}\n'.repeat(400_000),
      'braces.js': `${'(<'.repeat(100)}\n`.repeat(4000),
    }),
  );
  const { matches, index } = await ask(word);
  expect(index).toMatchObject({ state: 'ready', files: 5 });
  expect(matches[0]?.path).toBe('one-line.js');
  expect(matches[0]?.text.length).toBeLessThan(1000);
});

test('S7: very many files are indexed up to a limit, and the answer says so', { timeout: 600_000 }, async () => {
  const folder = makeTree({});
  const count = proof ? 1_000_000 : 600;
  const limits = proof ? undefined : { files: 200, textBytes: 1024 ** 2, refreshMs: 0 };
  for (let at = 0; at < count; at++) {
    if (at % 100 === 0) mkdirSync(join(folder, `d${at / 100}`));
    writeFileSync(join(folder, `d${Math.floor(at / 100)}`, `f${at}.ts`), `const ${word}${at} = ${at};\n`);
  }
  const { ask } = openCodebase(folder, limits === undefined ? {} : { limits });
  const { index } = await ask(`${word}7`);
  expect(index).toMatchObject({ state: 'ready', files: proof ? 50_000 : 200, partial: true });
});
