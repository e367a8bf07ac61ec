// Writes the JavaScript of dist/: few files instead of hundreds, since loading them is most of what a start costs.
// Their types come from the compiler, beside them.
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { rolldown } from 'rolldown';
import { consolePackages } from './console-packages.js';

const project = join(import.meta.dirname, '..');
const source = join(project, 'src');
const target = join(project, 'dist');
const { dependencies, optionalDependencies } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8'));

/** Their code goes into dist/; other dependencies are loaded from where they are installed. */
const inside = ['@marcbachmann/cel-js', 'jsonc-parser', 're2js', 'smol-toml', 'yaml', 'zod'];
const outside = Object.keys({ ...dependencies, ...optionalDependencies }).filter((name) => !inside.includes(name));

const doors = [
  'index',
  'public/sdk/index',
  'public/server/index',
  'public/workspaces/index',
  'stores/index',
  'public/testing/index',
  'cli/main',
];
/** Started by their path, and shown alone inside a sandbox: each is one file that needs no other of ours. */
const programs = [
  'sandbox/reaper/reaper-process',
  'sandbox/egress/forwarder',
  'workspaces/backends/container/files-process',
  'workspaces/codebase/index-worker',
  'observability/journal/statistics/statistics-worker',
];

/** Looks for files from where it lies itself, and so stays a file of its own. */
const placed = { name: 'package-paths', file: join(source, 'package-paths.ts') };

/**
 * Modules that are loaded together. Without this, every module that several commands share would become a file of its own, and
 * a command without a gateway would open sixty of them.
 */
const together = {
  command: ['cli/main', 'cli/io/log-flags', 'cli/commands/session'],
  offline: [
    'config/load/load',
    'entrances/control/handle-request',
    'gateway/assembly/open-operator',
    'stores/sqlite/sqlite-store',
  ],
  server: ['public/server/index'],
  stores: ['stores/index'],
};

/** Puts modules that the same of them need into one file. */
function groupModules() {
  const imports = new Map();
  const sets = Object.keys(together).map((name) => ({ name, ids: new Set() }));
  const visit = (id, ids) => {
    if (ids.has(id)) return;
    ids.add(id);
    for (const next of imports.get(id) ?? []) visit(next, ids);
  };
  const needing = (id) => sets.filter(({ ids }) => ids.has(id)).map(({ name }) => name);
  const plugin = {
    name: 'together',
    moduleParsed: ({ id, importedIds }) => void imports.set(id, importedIds),
    buildEnd() {
      for (const { name, ids } of sets) for (const each of together[name]) visit(join(source, `${each}.ts`), ids);
    },
  };
  const all = [[]];
  for (const { name } of sets) all.push(...all.map((each) => [...each, name]));
  const groups = all
    .filter((names) => names.includes('command') || names.includes('offline'))
    // What more of them need comes first: it is what the others are built on.
    .map((names) => ({
      name: `for-${names.join('-')}`,
      test: (id) => `${needing(id)}` === `${names}`,
      priority: names.length,
    }));
  // A command tells it how to work before schemas are made with it.
  const zod = { name: 'zod', test: /\/node_modules\/zod\//, priority: sets.length + 1 };
  return { plugin, groups: [zod, ...groups] };
}

/** Its own modules instead of CommonJS, which takes longer to load and cannot be left out in part. */
const alias = {
  'jsonc-parser': join(project, 'node_modules/jsonc-parser/lib/esm/main.js'),
  yaml: join(project, 'node_modules/yaml/browser/dist/index.js'),
};

async function write(names, { plugin, groups } = { groups: [] }) {
  const input = Object.fromEntries(names.map((name) => [name, join(source, `${name}.ts`)]));
  const bundle = await rolldown({
    input,
    cwd: project,
    platform: 'node',
    external: outside,
    resolve: { alias },
    plugins: [plugin],
    checks: { ineffectiveDynamicImport: false },
  });
  const { output } = await bundle.write({
    dir: target,
    format: 'esm',
    // Not published, so no file of dist/ refers to its map. Tests read there which files of src/ a bundle holds.
    sourcemap: 'hidden',
    sourcemapExcludeSources: true,
    entryFileNames: '[name].js',
    chunkFileNames: ({ name }) => (name === placed.name ? '[name].js' : 'shared/[name].js'),
    codeSplitting: { groups: [{ name: placed.name, test: (id) => id === placed.file, priority: 9 }, ...groups] },
  });
  await bundle.close();
  return output;
}

/** Whatever an earlier build has left under another name. */
function sweep(written) {
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (/\.js(?:\.map)?$/.test(name) && !written.has(name)) rmSync(join(target, name));
  }
}

/** Removes the types that no export of the package leads to. */
function sweepTypes() {
  const needed = new Set();
  const visit = (file) => {
    if (needed.has(file)) return;
    needed.add(file);
    for (const [, path] of readFileSync(file, 'utf8').matchAll(/(?:from|import\()\s*['"](\.[^'"]+)\.ts['"]/g)) {
      visit(join(dirname(file), `${path}.d.ts`));
    }
  };
  for (const door of doors) visit(join(target, `${door}.d.ts`));
  for (const name of readdirSync(target, { recursive: true, encoding: 'utf8' })) {
    if (name.endsWith('.d.ts') && !needed.has(join(target, name))) rmSync(join(target, name));
  }
}

function packagesIn(output) {
  const modules = output.flatMap((file) => Object.keys(file.modules ?? {}));
  const names = modules.map((id) => id.match(/.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1]);
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Who wrote what is in dist/ and not ours, and on which terms. */
function thirdParties(names) {
  const unexpected = names.filter((name) => !inside.includes(name) && !consolePackages.includes(name));
  if (unexpected.length > 0) throw new Error(`Not meant to be inside: ${unexpected.join(', ')}`);
  return names.map((name) => {
    const folder = join(project, 'node_modules', name);
    const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
    const file = readdirSync(folder).find((each) => /^LICENSE(?:\.md)?$/.test(each));
    const terms = readFileSync(join(folder, file), 'utf8').trim();
    return `${name} ${version} (${license})\n\n${terms}\n`;
  });
}

const output = [...(await write(doors, groupModules()))];
const holder = output.find((file) => file.moduleIds?.includes(placed.file));
if (holder?.fileName !== `${placed.name}.js`) throw new Error('Files would be looked for in the wrong place.');
for (const program of programs) {
  const files = await write([program]);
  const chunks = files.filter((file) => file.type === 'chunk');
  if (chunks.length !== 1) throw new Error(`${program} is not one file.`);
  output.push(...files);
}
sweep(new Set(output.map((file) => file.fileName)));
sweepTypes();
const parties = thirdParties([...packagesIn(output), ...consolePackages].sort());
const line = `${'-'.repeat(80)}\n\n`;
writeFileSync(
  join(target, 'THIRD-PARTY.txt'),
  `The files beside this one hold code of:\n\n${parties.join(`\n${line}`)}`,
);
