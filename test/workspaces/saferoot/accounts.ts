import { execFile, execFileSync } from 'node:child_process';
import { copyFileSync, cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { onTestFinished } from 'vitest';
import { repository } from '../../structure/source-files.ts';
import type { Scene } from './scene.ts';

export interface Account {
  readonly uid: number;
  readonly gid: number;
}

export const own: Account = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
export const ordinary: Account = { uid: 1500, gid: 1500 };
/** Only root can become someone else. */
export const canChange = own.uid === 0;

/** Scripts and a build beside the scene, which another account can read wherever this checkout lies. */
export function copyScripts(scene: Scene): { readonly script: (name: string) => string; readonly module: string } {
  const library = join(scene.base, 'library');
  for (const path of ['workspaces/saferoot', 'lib/text']) {
    cpSync(join(repository, 'build', path), join(library, path), { recursive: true });
  }
  for (const name of ['swapper.js', 'racer.js', 'asker.js']) {
    copyFileSync(join(import.meta.dirname, name), join(library, name));
  }
  writeFileSync(join(library, 'package.json'), '{"type":"module"}');
  return { script: (name) => join(library, name), module: join(library, 'workspaces/saferoot/open-root.js') };
}

/** Links themselves are given away, never what they lead to. */
export function changeOwner(scene: Scene, account: Account): void {
  if (account.uid !== own.uid) execFileSync('chown', ['-hRP', `${account.uid}:${account.gid}`, scene.base]);
}

/** Runs a script to its end; when the test is over before that, the script is killed. */
export async function runAsAccount(account: Account, args: readonly string[]): Promise<unknown> {
  const running = promisify(execFile)(process.execPath, args, account);
  onTestFinished(() => void running.child.kill('SIGKILL'));
  const { stdout } = await running;
  return JSON.parse(stdout);
}
