// node racer.js MODULE FOLDER MS [usual-way]: every operation of a SafeRoot on FOLDER/a/d, MS milliseconds each, while
// somebody swaps that folder for a link out. Prints what came of it as JSON. Beside it stands the usual way, by realpath.
import { readFile, realpath, writeFile } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [module, folder, ms, way] = process.argv.slice(2);
const { openRoot } = await import(pathToFileURL(module).href);
const root = openRoot(folder);
const isOutside = (seen) => JSON.stringify(seen ?? '').includes('SECRET');

/** Each returns what it saw, as text. The outside has the same names, with SECRET in all that can be seen of them. */
const operations = {
  read: async () => (await root.read('a/d/f.txt')).toString(),
  stream: async () => {
    const file = await root.open('a/d/sub/f.txt');
    try {
      let text = '';
      for await (const chunk of file.chunks({ chunkBytes: 4 })) text += chunk.toString();
      return text;
    } finally {
      await file.close();
    }
  },
  stat: async () => ((await root.stat('a/d/f.txt')).size > 100 ? 'SECRET' : ''),
  list: async () => (await root.list('a/d')).entries.map(({ name }) => name).join(),
  readlink: () => root.readlink('a/d/link'),
  create: async (n) => {
    await root.create(`a/d/new-${n}`, 'planted');
    await until(() => root.remove(`a/d/new-${n}`));
  },
  replace: (n) => root.replace('a/d/f.txt', `inside ${n}`),
  mkdir: async (n) => {
    await root.mkdir(`a/d/made-${n}/deep`, { parents: true });
    await until(() => root.removeTree(`a/d/made-${n}`));
  },
  remove: async () => {
    await until(() => root.replace('a/d/victim', 'victim', { create: true }));
    await root.remove('a/d/victim');
  },
  removeTree: async () => {
    await until(() => root.mkdir('a/d/tree/deep', { parents: true }));
    await root.removeTree('a/d/tree');
  },
  renameFrom: async (n) => {
    await until(() => root.replace('a/d/prey', 'prey', { create: true }));
    await root.rename('a/d/prey', `taken-${n}`);
    const text = (await root.read(`taken-${n}`)).toString();
    await root.remove(`taken-${n}`);
    return text;
  },
  renameTo: async (n) => {
    await root.replace('bait', 'planted', { create: true });
    await root.rename('bait', n % 2 === 0 ? 'a/d/bait' : 'a/d/sub/bait', { overwrite: true });
  },
};

const usualWay = {
  read: async () => {
    const path = await realpath(join(folder, 'a/d/f.txt'));
    if (!path.startsWith(`${folder}/`)) throw new Error('outside');
    return readFile(path, 'utf8');
  },
  create: async (n) => {
    const path = join(folder, `a/d/planted-${n}`);
    const parent = await realpath(dirname(path));
    if (!parent.startsWith(`${folder}/`)) throw new Error('outside');
    await writeFile(join(dirname(path), basename(path)), 'planted', { flag: 'wx' });
    return (await readFile(join(folder, '..', 'outside', basename(path))).catch(() => undefined)) ? 'SECRET' : '';
  },
};

/** Work that only prepares or tidies up is tried until the folder happens to be there; it may be gone for good. */
async function until(work) {
  for (let left = 100; left > 0; left--) {
    try {
      return await work();
    } catch (error) {
      if (error.code === undefined) throw error;
    }
  }
}

async function race(operation, goesOn) {
  const result = { tries: 0, done: 0, leaks: 0, refusals: {} };
  for (const began = Date.now(); goesOn(result, Date.now() - began); result.tries++) {
    try {
      const seen = await operation(result.tries);
      result.done++;
      if (isOutside(seen)) result.leaks++;
    } catch (error) {
      const code = error.code ?? String(error);
      result.refusals[code] = (result.refusals[code] ?? 0) + 1;
    }
  }
  return result;
}

/** It goes on until it has met what it waits for; the test that started it ends it when that takes too long. */
const raced = ({ done }, passed) => passed < Number(ms) || done < 5;
const leaked = ({ leaks }) => leaks === 0;

const results = {};
const [ways, goesOn] = way === 'usual-way' ? [usualWay, leaked] : [operations, raced];
for (const [name, operation] of Object.entries(ways)) results[name] = await race(operation, goesOn);
root.close();
console.log(JSON.stringify(results));
