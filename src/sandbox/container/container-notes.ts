import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { listNames } from '../../lib/fs/if-present.ts';
import { type Engine, runEngine } from './engine.ts';

/**
 * Containers outlive the process that made them. So the container of a process is written down in the instance's folder
 * before it is made. The reaper, or the next start of Ambit, finds it there.
 */
const folderName = 'containers';
const containerName = /^ambit-[A-Za-z0-9._-]{1,200}$/;

interface ContainerNote {
  readonly engine: Engine;
  readonly name: string;
}

export function noteContainer(tmpDir: string, noted: ContainerNote): void {
  const folder = join(dirname(tmpDir), folderName);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, basename(tmpDir)), JSON.stringify(noted), { mode: 0o600 });
}

/** Removes the container of one process, running or not. Never rejects. */
export async function removeContainerOf(root: string, process: string): Promise<void> {
  const note = join(root, folderName, process);
  const noted = readNote(note);
  if (noted !== undefined && (await removeContainer(noted.engine, noted.name))) rmSync(note, { force: true });
}

/** Removes the containers of a whole instance. */
export async function removeAllContainers(root: string): Promise<void> {
  await Promise.all(listNames(join(root, folderName)).map((name) => removeContainerOf(root, name)));
}

/** Returns whether the container is gone. */
export async function removeContainer(engine: Engine, name: string): Promise<boolean> {
  if (!containerName.test(name)) return false;
  const atOnce = engine.kind === 'podman' ? ['--time', '0'] : [];
  try {
    await runEngine(engine, ['rm', '--force', '--volumes', ...atOnce, name]);
    return true;
  } catch (error) {
    return /no such container|no container with name/i.test((error as Error).message);
  }
}

function readNote(note: string): ContainerNote | undefined {
  try {
    return JSON.parse(readFileSync(note, 'utf8')) as ContainerNote;
  } catch {
    return undefined;
  }
}
