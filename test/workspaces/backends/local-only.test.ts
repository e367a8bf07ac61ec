import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { AmbitError } from '../../../src/errors.ts';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { type LocalBackend, openLocal } from '../../../src/workspaces/backends/local/open-local.ts';
import { createPathRules } from '../../../src/workspaces/path-guard.ts';
import { createTemporaryName, releaseTemporaryName } from '../../../src/workspaces/saferoot/write-file.ts';
import { counts } from '../../proof.ts';
import { layTraps, listHostilePaths, oddNames } from '../saferoot/attacks.ts';
import {
  countDescriptors,
  createSceneForTest,
  expectNoMoreDescriptors,
  listNamesBelow,
  makeFifo,
  type Scene,
  secret,
  takeSnapshot,
} from '../saferoot/scene.ts';
import { startSwapping } from '../saferoot/start-swapping.ts';
import { countFsCalls } from './count-fs-calls.ts';
import { noRules, readContent, refusalCode, refusalMessage, toBytes } from './suite/suite-workspace.ts';

function openWorkspace(scene: Scene, rules = noRules): LocalBackend {
  const opened = openLocal(scene.inside(), { rules });
  onTestFinished(() => opened.close());
  return opened;
}

const listOperations = (files: WorkspaceBackend, path: string): (() => Promise<unknown>)[] => [
  () => readContent(files, path),
  () => files.stat(path),
  () => files.list(path),
  () => files.write(path, toBytes('planted')),
  () => files.write(path, toBytes('planted'), { expected: 'absent' }),
  () => files.mayWrite(path),
  () => files.mayWrite(path, { expected: 'absent' }),
  () => files.makeFolder(path),
  () => files.move('a/f.txt', path),
  () => files.move(path, 'taken'),
  () => files.remove(path),
  () => files.remove(path, { recursive: true }),
];

describe('W3: a folder of the host', () => {
  test('no hostile path reads or changes anything outside, and no refusal contains a path of the host', async () => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const files = openWorkspace(scene);
    const outside = () => [scene.outside(), `${scene.base}/ws-evil`].map(takeSnapshot);
    const before = outside();
    for (const path of [...listHostilePaths(scene).map(([each]) => each), ...oddNames]) {
      for (const deed of listOperations(files, path)) {
        const told = await deed().then(
          (result) => JSON.stringify(result ?? null),
          (error: AmbitError) => `${error.code} ${error.message} ${error.hint}`,
        );
        expect(told).not.toContain(secret);
        expect(told).not.toContain(scene.base);
      }
      if (!existsSync(scene.inside('a'))) mkdirSync(scene.inside('a'));
      writeFileSync(scene.inside('a/f.txt'), 'inside');
    }
    expect(outside()).toEqual(before);
  });

  test('every refusal is an AmbitError, and no descriptor stays open', async () => {
    const scene = createSceneForTest();
    await layTraps(scene);
    const files = openWorkspace(scene, createPathRules({ hide: [], keep: [], open: [] }));
    await files.swept;
    const segment = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('a', 'b', 'up', 'rel-folder', 'to-self', 'd3', '.git', '.env') },
      { weight: 3, arbitrary: fc.constantFrom('..', '.', '', '...', '.. ', '\uff0e\uff0e') },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) },
    );
    const path = fc.array(segment, { minLength: 1, maxLength: 8 }).map((segments) => segments.join('/'));
    const [before, descriptors] = [takeSnapshot(scene.outside()), countDescriptors()];
    await fc.assert(
      fc.asyncProperty(path, fc.nat(11), async (asked, which) => {
        const told = await listOperations(files, asked)
          [which]?.()
          .catch((error: AmbitError) => {
            expect(error.name, String(error)).toBe('AmbitError');
            return error.message;
          });
        expect(JSON.stringify(told ?? '')).not.toContain(secret);
        expect(JSON.stringify(told ?? '')).not.toContain(scene.base);
      }),
      { numRuns: counts(200, 5000) },
    );
    expect(takeSnapshot(scene.outside())).toEqual(before);
    await expectNoMoreDescriptors(descriptors);
  });

  test('an absolute path that lies in the workspace is answered with the relative one', async () => {
    const scene = createSceneForTest();
    mkdirSync(scene.inside('src'));
    writeFileSync(scene.inside('src/f'), '');
    symlinkSync(scene.inside(), join(scene.base, 'alias'));
    const files = openLocal(join(scene.base, 'alias'), { rules: noRules });
    onTestFinished(() => files.close());
    for (const [asked, relative] of [
      [scene.inside('src/f'), 'src/f'],
      [`${scene.inside()}//src/./f`, 'src/f'],
      [join(scene.base, 'alias/src/new'), 'src/new'],
      ['/src/f', 'src/f'],
      [scene.inside(), '.'],
    ] as const) {
      await expect(files.open(asked)).rejects.toMatchObject({ code: 'PATH_VIOLATION', hint: `Use "${relative}".` });
    }
    for (const asked of [join(scene.base, 'ws-evil/f.txt'), `${scene.inside()}/../outside/f.txt`]) {
      await expect(files.open(asked)).rejects.toMatchObject({ hint: expect.not.stringContaining('Use "') });
    }
  });

  test('special files are listed and never opened', async () => {
    const scene = createSceneForTest();
    makeFifo(scene.inside('pipe'));
    const files = openWorkspace(scene);
    expect(await files.stat('pipe')).toMatchObject({ kind: 'special' });
    expect(await refusalCode(files.open('pipe'))).toBe('FILE_WRONG_KIND');
    expect(await refusalCode(files.mayWrite('pipe'))).toBe('FILE_WRONG_KIND');
    expect(await refusalCode(files.write('pipe', toBytes('')))).toBe('FILE_WRONG_KIND');
  });

  test('a missing folder is reported without its path', async () => {
    const scene = createSceneForTest();
    expect(() => openLocal(scene.inside('none'), { rules: noRules })).toThrow(
      expect.objectContaining({ code: 'WORKSPACE_UNAVAILABLE', message: expect.not.stringContaining(scene.base) }),
    );
  });

  test.runIf(process.getuid?.() !== 0)('missing permissions are reported as such', async () => {
    const scene = createSceneForTest();
    writeFileSync(scene.inside('f'), '');
    chmodSync(scene.inside('f'), 0o400);
    mkdirSync(scene.inside('d'), { mode: 0o500 });
    const files = openWorkspace(scene);
    for (const path of ['f', 'd/new', 'd/new/deep']) {
      expect(await refusalCode(files.mayWrite(path)), path).toBe('FILE_FAILED');
      expect(await refusalCode(files.write(path, toBytes('x'))), path).toBe('FILE_FAILED');
    }
  });

  test('a closed backend refuses everything', async () => {
    const files = openWorkspace(createSceneForTest());
    await files.close();
    expect(await refusalCode(files.stat('.'))).toBe('WORKSPACE_UNAVAILABLE');
  });
});

describe('W6: what writes leave', () => {
  test('temporary files are neither listed nor accessible by name', async () => {
    const scene = createSceneForTest();
    const files = openWorkspace(scene);
    const name = createTemporaryName();
    onTestFinished(() => releaseTemporaryName(name));
    writeFileSync(scene.inside(name), 'half');
    expect((await files.list('.')).entries).toEqual([]);
    for (const path of [name, `./${name}`, `${name}/x`]) {
      for (const deed of listOperations(files, path).slice(0, 8))
        expect(await refusalCode(deed())).toBe('PATH_PROTECTED');
    }
  });

  test('leftovers of killed writes are swept on opening, those of running processes are not', async () => {
    const scene = createSceneForTest();
    const own = createTemporaryName();
    const underWay = createTemporaryName();
    releaseTemporaryName(own);
    onTestFinished(() => releaseTemporaryName(underWay));
    const child = spawn(process.execPath, ['-e', '']);
    await once(child, 'exit');
    const digits = (id: number) => id.toString(16).padStart(6, '0');
    const by = (writer: string) => own.slice(0, 13) + writer + own.slice(19);
    const dead = by(digits(child.pid as number));
    const alive = by(digits(process.ppid));
    const elsewhere = `.ambit-ffffff${own.slice(13)}`;
    const longAgo = `.ambit-fffffe${own.slice(13)}`;
    mkdirSync(scene.inside('a/.git'), { recursive: true });
    for (const name of [own, underWay, dead, alive, elsewhere, longAgo]) writeFileSync(scene.inside(`a/${name}`), '');
    writeFileSync(scene.inside(`a/.git/${own}`), '');
    writeFileSync(scene.inside('a/.ambit-x.tmp'), '');
    utimesSync(scene.inside(`a/${longAgo}`), 1000, 1000);
    const files = openWorkspace(scene, createPathRules({ hide: [], keep: [], open: [] }));
    expect(await files.swept).toBe(3);
    expect(readdirSync(scene.inside('a')).sort()).toEqual(['.ambit-x.tmp', '.git', underWay, alive, elsewhere].sort());
    expect(readdirSync(scene.inside('a/.git'))).toEqual([own]);
  });

  test('durable writes work', async () => {
    const scene = createSceneForTest();
    const files = openLocal(scene.inside(), { rules: noRules, durable: true, sweep: false });
    onTestFinished(() => files.close());
    await files.write('a/f', toBytes('one'));
    await files.write('a/f', toBytes('two'));
    expect(readFileSync(scene.inside('a/f'), 'utf8')).toBe('two');
    expect(listNamesBelow(scene.inside())).toEqual(['a', 'a/f']);
  });
});

test('W7: a link swapped in during an operation does not reach protected paths', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('a/d'), { recursive: true });
  mkdirSync(scene.inside('.ssh'));
  writeFileSync(scene.inside('a/d/f.txt'), 'inside');
  writeFileSync(scene.inside('.ssh/f.txt'), secret);
  const before = takeSnapshot(scene.inside('.ssh'));
  const files = openWorkspace(scene, createPathRules({ hide: [], keep: [], open: [] }));
  const swapper = await startSwapping(scene.inside('a'), { target: '../.ssh' });
  const met: Record<string, number> = {};
  const deeds: (() => Promise<unknown>)[] = [
    async () => expect(await readContent(files, 'a/d/f.txt')).not.toContain(secret),
    async () => expect((await files.stat('a/d/f.txt')).bytes).not.toBe(secret.length),
    () => files.write('a/d/f.txt', toBytes('inside')),
    () => files.write('a/d/new', toBytes('planted')),
    () => files.remove('a/d/new'),
    () => files.list('a/d'),
  ];
  // Until both have been met often, however long that takes.
  const enough = counts(20, 2000);
  while ((met['done'] ?? 0) < enough || (met['PATH_PROTECTED'] ?? 0) < enough) {
    for (const deed of deeds) {
      const code = await deed().then(
        () => 'done',
        (error: { code?: string }) => {
          if (error.code === undefined) throw error;
          return error.code;
        },
      );
      met[code] = (met[code] ?? 0) + 1;
    }
  }
  await swapper.stop();
  expect(takeSnapshot(scene.inside('.ssh'))).toEqual(before);
});

test('W8: a refusal suggests what exists', async () => {
  const scene = createSceneForTest();
  mkdirSync(scene.inside('src/components'), { recursive: true });
  for (const name of ['Button.tsx', 'Buttons.tsx', 'button.css', 'Table.tsx'])
    writeFileSync(scene.inside(`src/components/${name}`), '');
  const files = openWorkspace(scene);
  const told = await refusalMessage(files.open('src/components/Buton.tsx'));
  expect(told).toContain('There is "src/components/Button.tsx"');
  expect(told).not.toContain('Table');
  expect(await refusalMessage(files.open('src/component/Button.tsx'))).toBe(
    '"src/component/Button.tsx" does not exist. The nearest existing folder on that path is "src". There is "src/components".',
  );
  expect(await refusalMessage(files.open('zzz'))).toBe('"zzz" does not exist.');
});

describe('S7: folders that are made to be costly', () => {
  const rules = createPathRules({ hide: [], keep: [], open: [] });

  /** Stops the clock, since cached reads expire and the counts must not depend on time. */
  function stopClock(): void {
    const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
    onTestFinished(() => now.mockRestore());
  }

  test('a refused move surveys nothing, and each name of a tree costs a few reads at any depth', async () => {
    const [scene, chains, depth] = [createSceneForTest(), counts(2, 4), 100];
    for (let i = 0; i < chains; i++) mkdirSync(scene.inside(`deep/c${i}/${'a/'.repeat(depth)}`), { recursive: true });
    mkdirSync(scene.inside('full/of'), { recursive: true });
    writeFileSync(scene.inside('taken'), '');
    const files = openWorkspace(scene, rules);
    await files.swept;
    stopClock();
    const looks = countFsCalls();
    const refused = await Promise.all(
      ['taken', 'full', 'deep/c0', 'taken', 'full'].flatMap((to) => [
        refusalCode(files.move('deep', to)),
        refusalCode(files.move('deep', to, { overwrite: true })),
      ]),
    );
    expect(new Set(refused)).toEqual(new Set(['FILE_EXISTS', 'FILE_WRONG_KIND', 'FOLDER_NOT_EMPTY', 'PATH_INVALID']));
    expect(looks.asked + looks.names).toBeLessThan(refused.length * 60);

    // It is looked through before the move, at the move and after it, by the names that lead there now and then.
    const entries = chains * depth;
    Object.assign(looks, { asked: 0, names: 0 });
    await Promise.all(Array.from({ length: 4 }, () => refusalCode(files.move('deep', 'moved'))));
    expect(existsSync(scene.inside('moved/c0'))).toBe(true);
    expect(looks.asked + looks.names).toBeLessThan(entries * 100);
    Object.assign(looks, { asked: 0, names: 0 });
    await files.remove('moved', { recursive: true });
    expect(looks.asked + looks.names).toBeLessThan(entries * 60);
  });

  test('a folder with many names is not read for each write, and targets of its links stay protected', async () => {
    const [scene, many] = [createSceneForTest(), 4000];
    mkdirSync(scene.inside('many/objects'), { recursive: true });
    for (let i = 0; i < many; i++) writeFileSync(scene.inside(`many/${i}`), '');
    symlinkSync('led', scene.inside('many/x.code-workspace'));
    const files = openWorkspace(scene, rules);
    await files.swept;
    stopClock();
    const looks = countFsCalls();
    await Promise.all(Array.from({ length: 20 }, (_, i) => files.write(`many/x${i}`, toBytes(`${i}`))));
    expect(looks.names).toBeLessThan((many * 20) / 2);
    symlinkSync('led-too', scene.inside('many/.vscode'));
    for (const path of ['many/led', 'many/led-too']) {
      expect(await refusalCode(files.write(path, toBytes('planted')))).toBe('PATH_PROTECTED');
    }

    // Whether git takes the folder for a repository is looked for each of these names.
    Object.assign(looks, { asked: 0, names: 0 });
    await refusalCode(files.write(`many/${'objects/../'.repeat(100)}x`, toBytes('')));
    expect(looks.names).toBeLessThan(many * 20);
  });
});
