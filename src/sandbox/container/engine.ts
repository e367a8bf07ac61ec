import { execFile } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { listNames } from '../../lib/fs/if-present.ts';
import { pickVariables } from '../common/base-environment.ts';
import { findTool } from '../common/find-program.ts';

/** A program that runs containers. */
export interface Engine {
  readonly kind: 'podman' | 'docker';
  readonly path: string;
  /** The whole environment of the engine. */
  readonly env: Readonly<Record<string, string>>;
}

interface EngineOutput {
  readonly stdout: string;
  readonly stderr: string;
}

/** Variables by which an engine finds its own files. They never hold the environment of servers. */
const passedVariables = [
  'PATH',
  'HOME',
  'XDG_RUNTIME_DIR',
  'XDG_CONFIG_HOME',
  'XDG_DATA_HOME',
  'DBUS_SESSION_BUS_ADDRESS',
  'CONTAINERS_CONF',
  'CONTAINERS_STORAGE_CONF',
  'DOCKER_HOST',
  'DOCKER_CONTEXT',
  'DOCKER_CONFIG',
] as const;
const timeLimitMs = 30_000;

/** Finds the engines, in the order in which they are tried. */
export function findEngines(searchPath: string | undefined, host: NodeJS.ProcessEnv = process.env): Engine[] {
  if (process.platform !== 'linux') return [];
  const env = pickVariables(host, passedVariables);
  return (['podman', 'docker'] as const).flatMap((kind) => {
    const path = findTool(kind, searchPath);
    return path === undefined ? [] : [{ kind, path, env }];
  });
}

/** An engine has failed; the message is its last line. */
export class EngineError extends Error {}

/** Runs one command of the engine to its end. */
export function runEngine(
  engine: Engine,
  args: readonly string[],
  { input = '', tmpDir }: { input?: string | Buffer; tmpDir?: string } = {},
): Promise<EngineOutput> {
  return new Promise((accept, reject) => {
    // The reaper recognises our processes by TMPDIR.
    const env = { NODE_V8_COVERAGE: undefined, ...engine.env, ...(tmpDir === undefined ? {} : { TMPDIR: tmpDir }) };
    const options = { env, cwd: '/', timeout: timeLimitMs, killSignal: 'SIGKILL', maxBuffer: 1 << 20 } as const;
    const child = execFile(engine.path, [...args], options, (error, stdout, stderr) => {
      if (error === null) accept({ stdout, stderr });
      else reject(new EngineError(lastLine(stderr) || error.message, { cause: error }));
    });
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}

function lastLine(said: string): string {
  return said.trim().split('\n').at(-1) ?? '';
}

/**
 * Containers outlive the process that made them. So the container of a process is written down in the instance's folder
 * before it is made. The reaper, or the next start of Ambit, finds it there.
 */
const notesFolder = 'containers';
const containerName = /^ambit-[A-Za-z0-9._-]{1,200}$/;

interface ContainerNote {
  readonly engine: Engine;
  readonly name: string;
}

export function noteContainer(tmpDir: string, noted: ContainerNote): void {
  const folder = join(dirname(tmpDir), notesFolder);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeFileSync(join(folder, basename(tmpDir)), JSON.stringify(noted), { mode: 0o600 });
}

/** Removes the container of one process, running or not. Never rejects. */
export async function removeContainerOf(root: string, process: string): Promise<void> {
  const note = join(root, notesFolder, process);
  const noted = readNote(note);
  if (noted !== undefined && (await removeContainer(noted.engine, noted.name))) rmSync(note, { force: true });
}

/** Removes the containers of a whole instance. */
export async function removeAllContainers(root: string): Promise<void> {
  await Promise.all(listNames(join(root, notesFolder)).map((name) => removeContainerOf(root, name)));
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
