import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import type { LogFields } from '../../../src/observability/log/log.ts';
import { createPlainRunner } from '../../../src/sandbox/plain/plain.ts';
import type { ProcessLaunch } from '../../../src/sandbox/runner.ts';
import { createGitRunner, type RunGit } from '../../../src/workspaces/session-folders/git/git.ts';
import { createSessionFolders, type SessionFolders } from '../../../src/workspaces/session-folders/session-folders.ts';
import { proof } from '../../proof.ts';
import { createSandboxHarness, type SandboxHarness } from '../../sandbox/bwrap/sandbox-harness.ts';
import { writeFiles } from '../search/make-folder.ts';

export { writeFiles };

export type Isolation = 'worktree' | 'copy';

export interface Scene {
  readonly folder: string;
  /** The workspace "repo". */
  readonly workspace: string;
  readonly dataDir: string;
  readonly said: string[];
  readonly folders: SessionFolders;
  /** Another process of Ambit, so to speak. */
  another(git?: RunGit): Promise<SessionFolders>;
  session(id: string, name?: string): Parameters<SessionFolders['folderFor']>[0];
  git(...args: string[]): string;
  remove(): void;
}

export interface SceneOptions {
  readonly onEnd?: 'auto' | 'keep' | 'remove';
  /** A part of the repository that is the workspace. */
  readonly part?: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly commit?: boolean;
  readonly git?: RunGit;
}

/** Without maintenance: newer versions of git do it after a commit in the background, where the folder may be gone. */
const settings = ['user.name=t', 'user.email=t@example.org', 'maintenance.auto=false'].flatMap((each) => ['-c', each]);

let harness: Promise<SandboxHarness> | undefined;

/** Git as the folders of sessions run it, in the sandbox of this machine. */
export const gitInSandbox: RunGit = async (...args) => {
  harness ??= createSandboxHarness();
  const { runner, root } = await harness;
  return createGitRunner({ sandbox: async () => runner, tmpRoot: root })(...args);
};

/**
 * For suites about what git is asked and what is made of its answers. A sandbox takes most of the time of each call, so
 * those suites have one in the proof only: the tests beside them have it in every run.
 */
export const gitOfSuites: RunGit = async (...args) => {
  if (proof) return gitInSandbox(...args);
  harness ??= createSandboxHarness();
  const { reaper, root, runner } = await harness;
  const plain = createPlainRunner({ reaper: reaper });
  const sandbox = async () => ({
    ...runner,
    start: ({ confinement: _, ...launch }: ProcessLaunch) =>
      plain.start({ ...launch, env: { ...launch.env, TMPDIR: launch.tmpDir } }),
  });
  return createGitRunner({ sandbox, tmpRoot: root })(...args);
};

/** Ends what git ran in. To be called after the last test of each file: several files may share this module. */
export async function stopGit(): Promise<void> {
  const was = harness;
  harness = undefined;
  await (await was)?.stop();
}

/** Opens scenes for the tests of a file, and removes them: to be called once in each file. */
export function useScenes(): typeof createScene {
  const scenes: Scene[] = [];
  afterEach(() => {
    for (const each of scenes.splice(0)) each.remove();
  });
  afterAll(stopGit);
  return async (...args) => {
    const made = await createScene(...args);
    scenes.push(made);
    return made;
  };
}

/** A repository with a commit, a data directory, and the folders of sessions in it. */
export async function createScene(isolation: Isolation | 'shared', options: SceneOptions = {}): Promise<Scene> {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-folders-'));
  const [top, dataDir] = [join(folder, 'repo'), join(folder, 'data')];
  const workspace = options.part === undefined ? top : join(top, options.part);
  for (const each of [workspace, dataDir]) mkdirSync(each, { recursive: true });
  const git = (...args: string[]) =>
    execFileSync('git', [...settings, '-C', top, ...args], {
      encoding: 'utf8',
      stdio: 'pipe',
    });
  writeFiles(
    workspace,
    options.files ?? { 'readme.md': 'one\ntwo\nthree\n', 'src/a.js': 'let a = 1;\n', '.gitignore': 'out/\n' },
  );
  // A copy needs no repository.
  if (isolation === 'worktree') git('init', '--quiet', '--initial-branch=main');
  if (isolation === 'worktree' && options.commit !== false) {
    git('add', '--all');
    git('commit', '--quiet', '--message=start');
  }
  const text = JSON.stringify({
    version: 1,
    workspaces: { repo: { path: workspace, isolation, onEnd: options.onEnd ?? 'auto' } },
  });
  const { config } = await loadConfig({ text, file: join(folder, 'ambit.yaml') });
  const said: string[] = [];
  const say = (event: string, fields?: LogFields) => void said.push(`${event} ${JSON.stringify(fields)}`);
  const run = options.git ?? gitInSandbox;
  const another = async (runs = run) =>
    createSessionFolders({ config: () => config, dataDir, log: { info: say, warn: say }, git: runs, record() {} });
  return {
    folder,
    workspace,
    dataDir,
    said,
    folders: await another(),
    another,
    session: (id, name) => ({ id: id.padEnd(16, '0'), name, workspaceId: 'repo' }),
    git,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

/** All files of a folder and what they hold; links as what they say. Git's own files are left out. */
export function readFiles(folder: string, under = ''): Record<string, string> {
  return Object.assign(
    {},
    ...readdirSync(join(folder, under)).map((name) => {
      const path = join(under, name);
      if (path === '.git') return {};
      const stats = lstatSync(join(folder, path));
      if (stats.isDirectory()) return readFiles(folder, path);
      return {
        [path]: stats.isSymbolicLink()
          ? `-> ${readlinkSync(join(folder, path))}`
          : readFileSync(join(folder, path), 'utf8'),
      };
    }),
  ) as Record<string, string>;
}

/** The name of the folder of a session that `Scene.session` made. */
export const nameOf = (id: string) => ({ sessionId: id.padEnd(16, '0'), workspaceId: 'repo' });
