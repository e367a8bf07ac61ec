import { describe, expect, onTestFinished, test } from 'vitest';
import { AmbitError } from '../../../src/errors.ts';
import type { Documents } from '../../../src/stores/documents.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { type DatabaseOptions, openDatabase } from '../../../src/workspaces/backends/database/open-database.ts';
import { counts } from '../../proof.ts';
import { listTree, noRules, readContent, readWhole, refusalCode, toBytes, toText } from './suite/suite-workspace.ts';

/** A store whose every document is seen, and that can be made to fail. */
function watchDocuments(): {
  readonly documents: Documents;
  readonly keys: Set<string>;
  failAfter(writes: number, how: 'before' | 'after'): void;
  writes(): number;
} {
  const store = openMemoryStore();
  onTestFinished(() => store.close());
  const { documents } = store;
  const keys = new Set<string>();
  let [writes, left, how] = [0, Number.POSITIVE_INFINITY, 'before'];
  const unavailable = () => new AmbitError('STORE_UNAVAILABLE');
  const failing = () => {
    if (left < 0) throw unavailable();
  };
  async function counted<T>(work: () => Promise<T>): Promise<T> {
    failing();
    writes++;
    left--;
    if (left < 0 && how === 'before') throw unavailable();
    const result = await work();
    if (left < 0) throw unavailable();
    return result;
  }
  return {
    keys,
    writes: () => writes,
    failAfter(next, then) {
      [left, how] = [next, then];
    },
    documents: {
      async get(collection, key) {
        failing();
        return documents.get(collection, key);
      },
      async list(collection, options) {
        failing();
        return documents.list(collection, options);
      },
      put: (collection, key, content, options) =>
        counted(async () => {
          const result = await documents.put(collection, key, content, options);
          if (result.outcome === 'written') keys.add(`${collection}/${key}`);
          return result;
        }),
      delete: (collection, key, options) =>
        counted(async () => {
          keys.delete(`${collection}/${key}`);
          return documents.delete(collection, key, options);
        }),
    },
  };
}

function openWorkspace(documents: Documents, options: Partial<DatabaseOptions> = {}) {
  const files = openDatabase(documents, 'ws', { rules: noRules, ...options });
  onTestFinished(() => files.close());
  return files;
}

const large = new Uint8Array(400_000).fill(7);

describe('W6: a store that fails', () => {
  const changes: Record<string, (files: ReturnType<typeof openWorkspace>) => Promise<unknown>> = {
    'a write': (files) => files.write('a/b/f', toBytes('new')),
    'a large write': (files) => files.write('a/b/f', large),
    'a move of a folder': (files) => files.move('a/b', 'c/d'),
    'a removal of a folder': (files) => files.remove('a', { recursive: true }),
  };

  async function stateOf(documents: Documents): Promise<string> {
    const files = openWorkspace(documents);
    const tree = await listTree(files, '.');
    const contents = await Promise.all(
      tree.filter((path) => !path.endsWith('/')).map(async (path) => (await readContent(files, path)).slice(0, 20)),
    );
    return JSON.stringify([tree, contents]);
  }

  test.each(Object.entries(changes))(
    '%s is done completely or not at all, and nothing is left behind',
    async (_, change) => {
      const plant = async (documents: Documents) => {
        const files = openWorkspace(documents, { graceMs: 60_000 });
        for (const path of ['a/b/f', 'a/b/g', 'a/h', 'top']) await files.write(path, toBytes(`old ${path}`));
        await files.sweep();
      };
      const plain = watchDocuments();
      await plant(plain.documents);
      const before = await stateOf(plain.documents);
      const start = plain.writes();
      await change(openWorkspace(plain.documents));
      const after = await stateOf(plain.documents);
      const steps = plain.writes() - start;
      expect(steps).toBeGreaterThan(1);
      const seen = new Set<string>();
      for (let step = 0; step < steps; step++) {
        for (const how of ['before', 'after'] as const) {
          const store = watchDocuments();
          await plant(store.documents);
          store.failAfter(step, how);
          const files = openWorkspace(store.documents);
          expect(await refusalCode(change(files))).toBe('WORKSPACE_UNAVAILABLE');
          store.failAfter(Number.POSITIVE_INFINITY, 'before');
          const state = await stateOf(store.documents);
          expect([before, after]).toContain(state);
          seen.add(state);
          // Long after: what is in the tree is there, and nothing else.
          await openWorkspace(store.documents, { graceMs: -1 }).sweep();
          expect(await stateOf(store.documents)).toBe(state);
          const fresh = watchDocuments();
          const copy = openWorkspace(fresh.documents);
          const tidy = openWorkspace(store.documents);
          for (const path of await listTree(tidy, '.')) {
            if (path.endsWith('/')) await copy.makeFolder(path);
            else await copy.write(path, await readWhole(await tidy.open(path)));
          }
          await openWorkspace(fresh.documents, { graceMs: -1 }).sweep();
          expect(store.keys.size).toBe(fresh.keys.size);
        }
      }
      expect(seen).toEqual(new Set([before, after]));
    },
  );
});

describe('W6: sweeping', () => {
  test('keeps exactly what is in the tree', async () => {
    const store = watchDocuments();
    const files = openWorkspace(store.documents);
    const late = openWorkspace(store.documents, { graceMs: -1 });
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    const path = () => `${'abc'[random(3)]}/${'xyz'[random(3)]}/${'12'[random(2)]}`.slice(0, [1, 3, 5][random(3)]);
    for (let round = 0; round < counts(60, 3000); round++) {
      const deed = random(10);
      if (deed < 5) await refusalCode(files.write(path(), deed === 0 ? large : toBytes(`round ${round}`)));
      else if (deed < 7) await refusalCode(files.move(path(), path(), { overwrite: deed === 5 }));
      else if (deed < 8) await refusalCode(files.remove(path(), { recursive: true }));
      else await refusalCode(files.makeFolder(path()));
      if (round % 50 === 49) {
        const before = await listTree(files, '.');
        await late.sweep();
        expect(await listTree(openWorkspace(store.documents), '.')).toEqual(before);
        for (const each of before.filter((one) => !one.endsWith('/')))
          await readContent(openWorkspace(store.documents), each);
      }
    }
    await files.remove('a', { recursive: true }).catch(() => {});
    await files.remove('b', { recursive: true }).catch(() => {});
    await files.remove('c', { recursive: true }).catch(() => {});
    await late.sweep();
    expect([...store.keys].map((key) => key.split('/')[1])).toEqual(['root']);
  });

  test('a reader keeps its content while the file is replaced and swept', async () => {
    const store = watchDocuments();
    const files = openWorkspace(store.documents);
    await files.write('f', large);
    const file = await files.open('f');
    await files.write('f', toBytes('new'));
    await files.sweep();
    expect((await file.read(0, large.length)).length).toBe(large.length);
    await openWorkspace(store.documents, { graceMs: -1 }).sweep();
    expect(await refusalCode(file.read(100_000, 10))).toBe('FILE_CHANGED');
    expect(await readContent(files, 'f')).toBe('new');
  });
});

describe('bounds of a workspace in the store', () => {
  test('W7: bytes and entries are limited, and a refused write changes nothing', async () => {
    const files = openWorkspace(watchDocuments().documents, { maxBytes: 10, maxEntries: 3 });
    await files.write('a/f', toBytes('0123456789'));
    expect(await refusalCode(files.write('g', toBytes('x')))).toBe('WORKSPACE_FULL');
    await files.write('g', toBytes(''));
    expect(await refusalCode(files.makeFolder('h'))).toBe('WORKSPACE_FULL');
    expect(await refusalCode(files.move('g', 'new/g'))).toBe('WORKSPACE_FULL');
    expect(await listTree(files, '.')).toEqual(['a/', 'a/f', 'g']);
    await files.write('a/f', toBytes('0'));
    await files.write('g', toBytes('012345678'));
    await files.remove('g');
    await files.makeFolder('h');
  });

  test('W9: workspaces of one store are separate', async () => {
    const { documents } = watchDocuments();
    const [one, other] = ['one', 'two'].map((id) => openDatabase(documents, id, { rules: noRules }));
    await one?.write('f', toBytes('one'));
    await other?.write('f', toBytes('other'));
    await one?.remove('f');
    expect(toText(await readWhole(await (other as NonNullable<typeof other>).open('f')))).toBe('other');
    await one?.close();
    expect(await refusalCode((one as NonNullable<typeof one>).stat('.'))).toBe('WORKSPACE_UNAVAILABLE');
    await other?.close();
  });

  test('a folder with many names is stored completely', async () => {
    const files = openWorkspace(watchDocuments().documents);
    const names = Array.from({ length: 400 }, (_, index) => `${String(index).padStart(4, '0')}-${'n'.repeat(200)}`);
    for (let at = 0; at < names.length; at += 100) {
      await Promise.all(names.slice(at, at + 100).map((name) => files.write(`many/${name}`, toBytes(name))));
    }
    expect((await files.list('many')).entries.map((entry) => entry.name)).toEqual(names);
    expect(await readContent(files, `many/${names[399]}`)).toBe(names[399]);
  });
});
