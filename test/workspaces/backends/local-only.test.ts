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
import { pathRules } from '../../../src/workspaces/path-rules.ts';
import { createTemporaryName, releaseTemporaryName } from '../../../src/workspaces/saferoot/temporary-file.ts';
import { counts } from '../../proof.ts';
import { hostilePaths, layTraps, oddNames } from '../saferoot/attacks.ts';
import {
  expectNoMoreDescriptors,
  makeFifo,
  namesBelow,
  openDescriptors,
  type Scene,
  sceneOfTest,
  secret,
  snapshot,
} from '../saferoot/scene.ts';
import { startSwapping } from '../saferoot/start-swapping.ts';
import { countLooks } from './count-fs-calls.ts';
import { bytes, codeOf, contentOf, messageOf, noRules } from './suite/suite-workspace.ts';

function openScene(scene: Scene, rules = noRules): LocalBackend {
  const opened = openLocal(scene.inside(), { rules });
  onTestFinished(() => opened.close());
  return opened;
}

const everyDeed = (files: WorkspaceBackend, path: string): (() => Promise<unknown>)[] => [
  () => contentOf(files, path),
  () => files.stat(path),
  () => files.list(path),
  () => files.write(path, bytes('planted')),
  () => files.write(path, bytes('planted'), { expected: 'absent' }),
  () => files.mayWrite(path),
  () => files.mayWrite(path, { expected: 'absent' }),
  () => files.makeFolder(path),
  () => files.move('a/f.txt', path),
  () => files.move(path, 'taken'),
  () => files.remove(path),
  () => files.remove(path, { recursive: true }),
];

describe('W3: a folder of the host', () => {
  test('no hostile path reads or changes anything outside, and no refusal names a path of the host', async () => {
    const scene = sceneOfTest();
    await layTraps(scene);
    const files = openScene(scene);
    const outside = () => [scene.outside(), `${scene.base}/ws-evil`].map(snapshot);
    const before = outside();
    for (const path of [...hostilePaths(scene).map(([each]) => each), ...oddNames]) {
      for (const deed of everyDeed(files, path)) {
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

  test('whatever the path, a refusal is one of ours and nothing is left open', async () => {
    const scene = sceneOfTest();
    await layTraps(scene);
    const files = openScene(scene, pathRules({ hide: [], keep: [], open: [] }));
    await files.swept;
    const segment = fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('a', 'b', 'up', 'rel-folder', 'to-self', 'd3', '.git', '.env') },
      { weight: 3, arbitrary: fc.constantFrom('..', '.', '', '...', '.. ', '\uff0e\uff0e') },
      { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 6 }) },
    );
    const path = fc.array(segment, { minLength: 1, maxLength: 8 }).map((segments) => segments.join('/'));
    const [before, descriptors] = [snapshot(scene.outside()), openDescriptors()];
    await fc.assert(
      fc.asyncProperty(path, fc.nat(11), async (asked, which) => {
        const told = await everyDeed(files, asked)
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
    expect(snapshot(scene.outside())).toEqual(before);
    await expectNoMoreDescriptors(descriptors);
  });

  test('an absolute path that lies in the workspace is answered with the relative one', async () => {
    const scene = sceneOfTest();
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
      await expect(files.open(asked)).rejects.toMatchObject({ hint: expect.not.stringContaining('Use') });
    }
  });

  test('special files are told of and never opened', async () => {
    const scene = sceneOfTest();
    makeFifo(scene.inside('pipe'));
    const files = openScene(scene);
    expect(await files.stat('pipe')).toMatchObject({ kind: 'special' });
    expect(await codeOf(files.open('pipe'))).toBe('FILE_WRONG_KIND');
    expect(await codeOf(files.mayWrite('pipe'))).toBe('FILE_WRONG_KIND');
    expect(await codeOf(files.write('pipe', bytes('')))).toBe('FILE_WRONG_KIND');
  });

  test('a folder that is not there is said without its path', async () => {
    const scene = sceneOfTest();
    expect(() => openLocal(scene.inside('none'), { rules: noRules })).toThrow(
      expect.objectContaining({ code: 'WORKSPACE_UNAVAILABLE', message: expect.not.stringContaining(scene.base) }),
    );
  });

  test.runIf(process.getuid?.() !== 0)('what the account may not do is said as such', async () => {
    const scene = sceneOfTest();
    writeFileSync(scene.inside('f'), '');
    chmodSync(scene.inside('f'), 0o400);
    mkdirSync(scene.inside('d'), { mode: 0o500 });
    const files = openScene(scene);
    for (const path of ['f', 'd/new', 'd/new/deep']) {
      expect(await codeOf(files.mayWrite(path)), path).toBe('FILE_FAILED');
      expect(await codeOf(files.write(path, bytes('x'))), path).toBe('FILE_FAILED');
    }
  });

  test('after it is closed there is nothing to be had', async () => {
    const files = openScene(sceneOfTest());
    await files.close();
    expect(await codeOf(files.stat('.'))).toBe('WORKSPACE_UNAVAILABLE');
  });
});

describe('W6: what writes leave', () => {
  test('files being written are neither listed nor reached by their names', async () => {
    const scene = sceneOfTest();
    const files = openScene(scene);
    const name = createTemporaryName();
    onTestFinished(() => releaseTemporaryName(name));
    writeFileSync(scene.inside(name), 'half');
    expect((await files.list('.')).entries).toEqual([]);
    for (const path of [name, `./${name}`, `${name}/x`]) {
      for (const deed of everyDeed(files, path).slice(0, 8)) expect(await codeOf(deed())).toBe('PATH_PROTECTED');
    }
  });

  test('leftovers of killed writes are swept when the folder is opened, those of others are not', async () => {
    const scene = sceneOfTest();
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
    const files = openScene(scene, pathRules({ hide: [], keep: [], open: [] }));
    expect(await files.swept).toBe(3);
    expect(readdirSync(scene.inside('a')).sort()).toEqual(['.ambit-x.tmp', '.git', underWay, alive, elsewhere].sort());
    expect(readdirSync(scene.inside('a/.git'))).toEqual([own]);
  });

  test('what is durable is written as well', async () => {
    const scene = sceneOfTest();
    const files = openLocal(scene.inside(), { rules: noRules, durable: true, sweep: false });
    onTestFinished(() => files.close());
    await files.write('a/f', bytes('one'));
    await files.write('a/f', bytes('two'));
    expect(readFileSync(scene.inside('a/f'), 'utf8')).toBe('two');
    expect(namesBelow(scene.inside())).toEqual(['a', 'a/f']);
  });
});

test('W7: a link swapped in while a tool works is no way to what is closed', async () => {
  const scene = sceneOfTest();
  mkdirSync(scene.inside('a/d'), { recursive: true });
  mkdirSync(scene.inside('.ssh'));
  writeFileSync(scene.inside('a/d/f.txt'), 'inside');
  writeFileSync(scene.inside('.ssh/f.txt'), secret);
  const before = snapshot(scene.inside('.ssh'));
  const files = openScene(scene, pathRules({ hide: [], keep: [], open: [] }));
  const swapper = await startSwapping(scene.inside('a'), { target: '../.ssh' });
  const met: Record<string, number> = {};
  const deeds: (() => Promise<unknown>)[] = [
    async () => expect(await contentOf(files, 'a/d/f.txt')).not.toContain(secret),
    async () => expect((await files.stat('a/d/f.txt')).bytes).not.toBe(secret.length),
    () => files.write('a/d/f.txt', bytes('inside')),
    () => files.write('a/d/new', bytes('planted')),
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
  expect(snapshot(scene.inside('.ssh'))).toEqual(before);
});

test('W8: a refusal leads to what is there', async () => {
  const scene = sceneOfTest();
  mkdirSync(scene.inside('src/components'), { recursive: true });
  for (const name of ['Button.tsx', 'Buttons.tsx', 'button.css', 'Table.tsx'])
    writeFileSync(scene.inside(`src/components/${name}`), '');
  const files = openScene(scene);
  const told = await messageOf(files.open('src/components/Buton.tsx'));
  expect(told).toContain('There is "src/components/Button.tsx"');
  expect(told).not.toContain('Table');
  expect(await messageOf(files.open('src/component/Button.tsx'))).toBe(
    '"src/component/Button.tsx" does not exist. The nearest folder on the way that does is "src". There is "src/components".',
  );
  expect(await messageOf(files.open('zzz'))).toBe('"zzz" does not exist.');
});

describe('S7: folders that are made to be costly', () => {
  const rules = pathRules({ hide: [], keep: [], open: [] });

  /** What is known is looked at again after a while. So that the counts do not depend on the time, it stands still. */
  function stopClock(): void {
    const now = vi.spyOn(performance, 'now').mockReturnValue(performance.now());
    onTestFinished(() => now.mockRestore());
  }

  test('a refused move looks through nothing, and each name of a tree costs a few looks, however deep it lies', async () => {
    const [scene, chains, depth] = [sceneOfTest(), counts(2, 4), 100];
    for (let i = 0; i < chains; i++) mkdirSync(scene.inside(`deep/c${i}/${'a/'.repeat(depth)}`), { recursive: true });
    mkdirSync(scene.inside('full/of'), { recursive: true });
    writeFileSync(scene.inside('taken'), '');
    const files = openScene(scene, rules);
    await files.swept;
    stopClock();
    const looks = countLooks();
    const refused = await Promise.all(
      ['taken', 'full', 'deep/c0', 'taken', 'full'].flatMap((to) => [
        codeOf(files.move('deep', to)),
        codeOf(files.move('deep', to, { overwrite: true })),
      ]),
    );
    expect(new Set(refused)).toEqual(new Set(['FILE_EXISTS', 'FILE_WRONG_KIND', 'FOLDER_NOT_EMPTY', 'PATH_INVALID']));
    expect(looks.asked + looks.names).toBeLessThan(refused.length * 60);

    // It is looked through before the move, at the move and after it, by the names that lead there now and then.
    const entries = chains * depth;
    Object.assign(looks, { asked: 0, names: 0 });
    await Promise.all(Array.from({ length: 4 }, () => codeOf(files.move('deep', 'moved'))));
    expect(existsSync(scene.inside('moved/c0'))).toBe(true);
    expect(looks.asked + looks.names).toBeLessThan(entries * 100);
    Object.assign(looks, { asked: 0, names: 0 });
    await files.remove('moved', { recursive: true });
    expect(looks.asked + looks.names).toBeLessThan(entries * 60);
  });

  test('a folder with many names is not read for each write, and what links in it lead to is still closed', async () => {
    const [scene, many] = [sceneOfTest(), 4000];
    mkdirSync(scene.inside('many/objects'), { recursive: true });
    for (let i = 0; i < many; i++) writeFileSync(scene.inside(`many/${i}`), '');
    symlinkSync('led', scene.inside('many/x.code-workspace'));
    const files = openScene(scene, rules);
    await files.swept;
    stopClock();
    const looks = countLooks();
    await Promise.all(Array.from({ length: 20 }, (_, i) => files.write(`many/x${i}`, bytes(`${i}`))));
    expect(looks.names).toBeLessThan((many * 20) / 2);
    symlinkSync('led-too', scene.inside('many/.vscode'));
    for (const path of ['many/led', 'many/led-too']) {
      expect(await codeOf(files.write(path, bytes('planted')))).toBe('PATH_PROTECTED');
    }

    // Whether git takes the folder for a repository is looked for each of these names.
    Object.assign(looks, { asked: 0, names: 0 });
    await codeOf(files.write(`many/${'objects/../'.repeat(100)}x`, bytes('')));
    expect(looks.names).toBeLessThan(many * 20);
  });
});
