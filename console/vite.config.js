import { createHash } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defineConfig } from 'vite';
import { consolePackages } from '../scripts/console-packages.js';

/** Fails the build if the code of another package would be published: its terms would be missing. */
const knownPackages = {
  name: 'known-packages',
  generateBundle(_options, bundle) {
    const modules = Object.values(bundle).flatMap((file) => (file.type === 'chunk' ? file.moduleIds : []));
    const names = modules.flatMap((id) => /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(id)?.[1] ?? []);
    const unknown = [...new Set(names)].filter((name) => !consolePackages.includes(name));
    if (unknown.length > 0) this.error(`Not meant to be in the console: ${unknown.join(', ')}`);
  },
};

/**
 * Adds the hashes of the files to the tags of the page: a browser runs no other file, whatever its cache holds under that
 * address. Parts that are loaded later have no tag.
 */
const integrity = {
  name: 'integrity',
  writeBundle({ dir }) {
    const page = join(dir, 'index.html');
    const tag = /<(?:script|link)\b[^>]* (?:src|href)="\.\/(assets\/[^"]+)"/g;
    const text = readFileSync(page, 'utf8').replace(tag, (found, file) => {
      const hash = createHash('sha384')
        .update(readFileSync(join(dir, file)))
        .digest('base64');
      return `${found} integrity="sha384-${hash}"`;
    });
    writeFileSync(page, text);
  },
};

/** Builds the console into dist/console, which `ambit serve` serves at "/". */
export default defineConfig({
  root: import.meta.dirname,
  // Addresses are relative to the page, so that a proxy can serve the gateway below a path.
  base: './',
  publicDir: 'public',
  logLevel: 'warn',
  plugins: [knownPackages, integrity],
  oxc: { jsx: { runtime: 'automatic', importSource: 'preact' } },
  build: {
    outDir: join(import.meta.dirname, '..', 'dist', 'console'),
    emptyOutDir: true,
    target: 'es2023',
    sourcemap: false,
    // The content security policy of the page allows neither inline scripts nor data addresses for styles.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
});
