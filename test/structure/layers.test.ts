import { join } from 'node:path';
import { expect, test } from 'vitest';
import { drawLayers } from './draw-layers.ts';
import { findLayer, layerNames, readLayerImports, rootFiles } from './layers.ts';
import { readSourceFiles, repository } from './source-files.ts';

const files = readSourceFiles('src');

test('every folder of src/ is a layer', () => {
  expect([...new Set(files.map((file) => findLayer(file.path)))].sort()).toEqual([rootFiles, ...layerNames].sort());
});

test.each([rootFiles, ...layerNames])('%s imports only from layers above it', (layer) => {
  const above = [rootFiles, ...layerNames.slice(0, Math.max(layerNames.indexOf(layer), 0))];
  expect(readLayerImports().filter(({ from, to }) => from === layer && !above.includes(to))).toEqual([]);
});

test('the sdk imports only types from the rest of Ambit', () => {
  const lines = files
    .filter((file) => file.path.startsWith('src/public/sdk/'))
    .flatMap((file) => [...file.text.matchAll(/^(?:import|export) .* from '\.\.\/.*$/gm)].map(([line]) => line));
  expect(lines.filter((line) => !/^(?:import|export) type /.test(line))).toEqual([]);
});

/** To draw it again after a change: `npx vitest run test/structure/layers.test.ts --update`. */
test('the picture of the layers is current', async () => {
  await expect(drawLayers()).toMatchFileSnapshot(join(repository, 'docs/images/layers.svg'));
});
