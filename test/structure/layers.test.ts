import { expect, test } from 'vitest';
import { listImports, readSourceFiles } from './source-files.ts';

/** The layers of `src/`. A file imports only from its own layer and from layers above it in this list. */
const layers = [
  '(root)',
  'lib',
  'protocol',
  'rules',
  'observability',
  'stores',
  'identity',
  'context',
  'config',
  'sessions',
  'sandbox',
  'workspaces',
  'upstreams',
  'gateway',
  'entrances',
  'cli',
  'public',
];

/** `src/index.ts` is what users of the package import, and so belongs to the last layer. */
function layerOf(path: string): string {
  if (path === 'src/index.ts') return 'public';
  const parts = path.split('/');
  return parts.length === 2 ? '(root)' : (parts[1] as string);
}

const files = readSourceFiles('src');

test('every folder of src/ is a layer', () => {
  expect([...new Set(files.map((file) => layerOf(file.path)))].sort()).toEqual([...layers].sort());
});

test.each(layers)('%s imports only from layers above it', (layer) => {
  const allowed = layers.slice(0, layers.indexOf(layer) + 1);
  const wrong = files
    .filter((file) => layerOf(file.path) === layer)
    .flatMap((file) => listImports(file).map((target) => ({ from: file.path, target })))
    .filter(({ target }) => !allowed.includes(layerOf(target)));
  expect(wrong).toEqual([]);
});

test('the sdk imports only types from the rest of Ambit', () => {
  const lines = files
    .filter((file) => file.path.startsWith('src/public/sdk/'))
    .flatMap((file) => [...file.text.matchAll(/^(?:import|export) .* from '\.\.\/.*$/gm)].map(([line]) => line));
  expect(lines.filter((line) => !/^(?:import|export) type /.test(line))).toEqual([]);
});
