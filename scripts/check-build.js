// Tells whether dist/ and build/ were made from the source as it is now, by a digest of everything a build reads.
//   node scripts/check-build.js           exits with 1 when a build is needed
//   node scripts/check-build.js --stamp   the last step of a build: records the digest
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const project = join(import.meta.dirname, '..');
const stamp = join(project, 'build', 'source-digest');
/** Written last into dist/: who has removed that folder needs a build, whatever the stamp says. */
const lastWritten = join(project, 'dist', 'ambit.schema.json');
const settings = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.build.json'];

function digestSources() {
  const inFolder = (folder) =>
    readdirSync(join(project, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
  const folders = ['src', 'console', 'scripts'];
  const files = [...folders.flatMap(inFolder), ...settings.map((name) => join(project, name))];
  const hash = createHash('sha256');
  for (const file of files.sort())
    hash
      .update(`${file.slice(project.length)}\0`)
      .update(readFileSync(file))
      .update('\0');
  return hash.digest('hex');
}

const digest = digestSources();
if (process.argv[2] === '--stamp') writeFileSync(stamp, digest);
else process.exitCode = existsSync(lastWritten) && existsSync(stamp) && readFileSync(stamp, 'utf8') === digest ? 0 : 1;
