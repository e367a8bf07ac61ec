import { execFile } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { proof } from '../proof.ts';
import { repository } from './source-files.ts';

const run = promisify(execFile);

/** The packed tarball, installed into an empty project. */
export interface InstalledPackage {
  /** The folder of the project. */
  readonly folder: string;
  /** The files of the tarball. */
  readonly files: readonly string[];
  readonly tarballBytes: number;
  remove(): void;
}

interface Manifest {
  readonly name: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly optionalDependencies: Readonly<Record<string, string>>;
}

export async function installPackage(manifest: Manifest): Promise<InstalledPackage> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-packed-'));
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder];
  const { stdout } = await run('npm', args, { cwd: repository, maxBuffer: 1 << 26 });
  const [packed] = JSON.parse(stdout) as [{ filename: string; files: { path: string }[] }];
  const tarball = join(folder, packed.filename);
  writeFileSync(join(folder, 'package.json'), '{"private":true}\n');
  await (proof ? installByNpm(folder, tarball) : unpackBesideLinks(folder, tarball, manifest));
  return {
    folder,
    files: packed.files.map(({ path }) => path),
    tarballBytes: statSync(tarball).size,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function installByNpm(folder: string, tarball: string): Promise<void> {
  const env = { ...process.env, HOME: join(folder, 'home') };
  await run('npm', ['i', '--ignore-scripts', '--prefer-offline', tarball], { cwd: folder, env });
}

/** The same folder as npm makes, without a download: each dependency is a link to the one of this repository. */
async function unpackBesideLinks(folder: string, tarball: string, manifest: Manifest): Promise<void> {
  const modules = join(folder, 'node_modules');
  const own = join(modules, manifest.name);
  mkdirSync(own, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', own, '--strip-components', '1']);
  for (const name of Object.keys({ ...manifest.dependencies, ...manifest.optionalDependencies })) {
    mkdirSync(dirname(join(modules, name)), { recursive: true });
    symlinkSync(join(repository, 'node_modules', name), join(modules, name));
  }
  mkdirSync(join(modules, '.bin'));
  for (const [name, file] of Object.entries(manifest.bin)) {
    chmodSync(join(own, file), 0o755);
    symlinkSync(join(own, file), join(modules, '.bin', name));
  }
}
