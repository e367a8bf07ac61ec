import { once } from 'node:events';
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Confinement, Guard } from '../../../../src/sandbox/common/confinement.ts';
import { runGit } from '../../../fixtures/hostile/builds-repository.js';
import { hasBwrap } from '../../../needs/bwrap.ts';
import { until } from '../../tagged-processes.ts';
import { createSandboxHarness, type SandboxHarness } from '../sandbox-harness.ts';

let harness: SandboxHarness;
let ws: string;
let marker: string;

/** What a shell in the sandbox says, and why it ended, if Ambit ended it. */
async function attack(
  script: string,
  guard: Guard = { git: 'read' },
  masked: readonly string[] = [],
  readable: Confinement['readable'] = [],
): Promise<{ said: string; reason?: string }> {
  const launch = harness.launch(['-c', `exec 2>&1; ${script}`]);
  if (launch.confinement === undefined) throw new Error('Nothing says what it may do.');
  const confinement: Confinement = { ...launch.confinement, home: { source: ws, target: ws, guard }, masked, readable };
  const running = await harness.runner.start({ ...launch, command: '/bin/sh', confinement });
  const [said, complaints, exit] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
  expect(complaints).toBe('');
  return { said, ...(exit.reason === undefined ? {} : { reason: exit.reason }) };
}

function put(path: string, content: string): void {
  mkdirSync(dirname(join(ws, path)), { recursive: true });
  writeFileSync(join(ws, path), content, { mode: 0o755 });
}

/** Tries to write each, and says which could be. */
const writes = (...paths: string[]) => `for each in ${paths.join(' ')}; do (echo x >> $each) && echo wrote $each; done`;

/** As a prompt or an editor of the operator does. */
function operate(folder = '.'): void {
  try {
    runGit(join(ws, folder), ['status', '--short']);
  } catch {
    // It is no repository: all the better.
  }
}

/** Makes a folder a repository that runs a command, without the name `.git`. */
const becomesRepository = (worktree = '.') =>
  `mkdir -p objects refs; echo ref: refs/heads/main > HEAD; printf '[core]\nbare=false\nworktree=${worktree}\nfsmonitor="touch ${marker}; false"\n' > config`;

describe.skipIf(!hasBwrap())('S4: what a server in a sandbox leaves for the git of the operator', () => {
  beforeAll(async () => {
    harness = await createSandboxHarness();
  });
  beforeEach(() => {
    const folder = mkdtempSync(join(harness.folder, 'test-'));
    ws = join(folder, 'ws');
    mkdirSync(ws);
    marker = join(folder, 'marker');
  });
  afterAll(() => harness.stop());

  test('S4: a file that the configuration includes is empty inside, and what is missing is not made', async () => {
    put('.mcp.json', 'secret-one');
    put('sub/servers.json', 'secret-two');
    const masked = ['.mcp.json', 'sub/servers.json', 'missing.json'].map((path) => join(ws, path));
    const script = 'ln sub/servers.json stolen; mv sub moved; cat .mcp.json */* stolen; mv moved sub';
    const { said } = await attack(`${writes('.mcp.json', 'sub/servers.json')}; ${script}`, { git: 'read' }, masked);
    expect(said).not.toMatch(/secret|wrote/);
    expect(
      readdirSync(ws)
        .filter((name) => name !== '.git' && name !== 'HEAD')
        .sort(),
    ).toEqual(['.mcp.json', 'sub']);
    expect(readFileSync(join(ws, 'sub/servers.json'), 'utf8')).toBe('secret-two');
  });

  test('S1: settings of the whole machine that may hold credentials are empty inside', async () => {
    const prefix = join(dirname(ws), 'prefix');
    // A file in a system folder that every machine has stands for the one of npm there.
    vi.stubEnv('npm_config_globalconfig', '/usr/lib/os-release');
    vi.stubEnv('npm_config_prefix', prefix);
    put('../prefix/etc/npmrc', 'secret-of-npm');
    put('../prefix/pip.conf', 'secret-of-pip');
    put('../prefix/free', 'ok');
    try {
      const files = `/usr/lib/os-release ${prefix}/etc/npmrc ${prefix}/pip.conf ${prefix}/free`;
      const { said } = await attack(`cat ${files}`, { git: 'read' }, [], [{ source: prefix, target: prefix }]);
      expect(said).toBe('ok');
    } finally {
      vi.unstubAllEnvs();
    }
  });

  test('S4: a workspace without a repository does not become one by what lies at its top', async () => {
    await attack(becomesRepository());
    operate();
    expect(existsSync(marker)).toBe(false);
    await until(
      () => !existsSync(join(ws, 'HEAD')),
      10_000,
      () => `left: ${readdirSync(ws)}`,
    );
    operate();
    expect(existsSync(marker)).toBe(false);
  });

  test('S4: in a folder of another repository, a server that makes the workspace one is ended', async () => {
    runGit(dirname(ws), ['init', '--quiet']);
    // The rules of a workspace let a session write what has an ordinary name.
    const mayWrite = (names: readonly string[]) => !names.includes('.git');
    const { reason } = await attack(`${becomesRepository()}; exec sleep 60`, { git: 'read', mayWrite });
    expect(reason).toMatch(/^"HEAD", which is read-only for sandboxed servers, was created/);
  });

  test('S4: a workspace that is a bare repository is protected like one', async () => {
    runGit(ws, ['init', '--quiet', '--bare']);
    for (const git of ['read', 'write'] as const) {
      const tried = ['config', 'config.worktree', 'commondir', 'hooks/post-checkout', 'info/attributes'];
      const { said } = await attack(writes(...tried), { git });
      expect(said).not.toContain('wrote');
    }
  });

  test('S4: a nested repository is found among any number of folders, named .git or not', async () => {
    const deep = 'a/b/c/d/e/f/g/h';
    for (const folder of ['team/lib', deep]) runGit(harness.folder, ['init', '--quiet', join(ws, folder)]);
    runGit(harness.folder, ['init', '--quiet', '--bare', join(ws, 'mirrors/x')]);
    expect((await attack('seq -f d%g 1100 | xargs mkdir')).said).toBe('');
    const tried = ['team/lib/.git/config', `${deep}/.git/config`, 'mirrors/x/config', 'mirrors/x/hooks/post-update'];
    const { said } = await attack(
      `${writes(...tried)}; mv mirrors/x y && echo moved; echo x > team/lib/note && echo ok`,
    );
    expect(said).not.toMatch(/wrote|moved/);
    expect(said).toContain('ok');
  });

  test('S4: a folder beyond the limits is refused, and the error says what to do', async () => {
    mkdirSync(join(ws, 'd/'.repeat(70)), { recursive: true });
    await expect(attack('true')).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringMatching(/levels deep/),
    });
  });

  test('S4: a repository in a folder that is read-only as a whole does not open that folder', async () => {
    runGit(harness.folder, ['init', '--quiet', join(ws, '.claude/skills/x')]);
    put('.claude/skills/x/SKILL.md', 'be kind\n');
    put('.gitmodules', '[submodule "y"]\npath = .vscode/y/z\n');
    put('.vscode/tasks.json', '{}');
    runGit(ws, ['init', '--quiet']);
    const { said } = await attack(writes('.claude/skills/x/SKILL.md', '.claude/skills/new', '.vscode/y/new'));
    expect(said).not.toContain('wrote');
  });

  test('S4: a server cannot put its own repository in place of a submodule or a linked repository', async () => {
    const commit = '1'.repeat(40);
    const link = (folder: string, path: string) =>
      runGit(folder, ['update-index', '--add', '--cacheinfo', `160000,${commit},${path}`]);
    put('.gitmodules', '[submodule "a"]\npath = named/with/slash/\n');
    put('way/target', '');
    for (const name of ['packages', '.repo']) mkdirSync(join(ws, name));
    symlinkSync('../way', join(ws, 'packages/led'));
    // As the tool of Android makes them.
    runGit(harness.folder, ['init', '--quiet', '--separate-git-dir', join(ws, '.repo/core'), join(ws, 'system/core')]);
    rmSync(join(ws, 'system/core/.git'));
    symlinkSync('../../.repo/core', join(ws, 'system/core/.git'));
    for (const folder of [ws, dirname(ws)]) runGit(folder, ['init', '--quiet']);
    const own = ['third_party/deps/zlib', 'named/with/slash', 'packages/led/deep'];
    for (const path of own) link(ws, path);
    link(dirname(ws), 'ws/vendor/lib');
    const places = [...own, 'vendor/lib', 'system/core'];
    const { said } = await attack(
      `${[...own, 'vendor/lib', 'system/core', '.repo/core'].map((path) => `mv ${path} gone; rm -rf ${path}`).join(';')}
      rm -rf packages/led; mv packages old; rm system/core/.git
      for each in ${places.join(' ')}; do (mkdir -p $each/.git && cd $each/.git && ${becomesRepository('..')}); done
      ${writes('.repo/core/config', '.repo/core/hooks/pre-commit')}; echo x > way/free && echo ok`,
    );
    expect(said).toContain('ok');
    expect(said).not.toContain('wrote');
    for (const folder of ['.', '..', 'system/core']) operate(folder);
    expect(existsSync(marker)).toBe(false);
  });

  test('S4: what the configuration of a repository names in the workspace is read-only, there or not', async () => {
    const settings = {
      'core.hooksPath': 'tools/hooks',
      'include.path': '../shared/gitconfig',
      'filter.x.clean': 'sh tools/clean.sh',
      'diff.y.textconv': './tools/linked',
      'filter.z.clean': '"$(git rev-parse --show-toplevel)/tools/third.sh"',
      'filter.w.clean': 'cd tools && ./fourth.sh',
      'includeIf.gitdir:/nowhere/.path': '../later/gitconfig',
    };
    for (const name of ['hooks/pre-commit', 'clean.sh', 'second.sh', 'third.sh', 'fourth.sh', 'target.sh'])
      put(`tools/${name}`, '');
    symlinkSync('target.sh', join(ws, 'tools/linked'));
    put('shared/gitconfig', '[core]\neditor = tools/second.sh\n');
    runGit(ws, ['init', '--quiet']);
    runGit(dirname(ws), ['init', '--quiet']);
    runGit(dirname(ws), ['config', 'core.hooksPath', 'ws/around']);
    // What a link with a protected name leads to, or one that lies among hooks.
    for (const name of ['scripts/check.sh', 'docs/agents.md', 'skills/a/SKILL.md']) put(name, '');
    symlinkSync('../../scripts/check.sh', join(ws, '.git/hooks/pre-commit'));
    symlinkSync('docs/agents.md', join(ws, 'CLAUDE.md'));
    mkdirSync(join(ws, '.claude'));
    symlinkSync('../skills', join(ws, '.claude/skills'));
    symlinkSync('husky-files', join(ws, '.husky'));
    runGit(harness.folder, ['init', '--quiet', join(ws, 'team/lib')]);
    for (const [name, value] of Object.entries(settings)) runGit(ws, ['config', name, value]);
    runGit(join(ws, 'team/lib'), ['config', 'core.hooksPath', 'hooks']);
    const tried = ['hooks/pre-commit', 'hooks/new', 'clean.sh', 'second.sh', 'third.sh', 'fourth.sh', 'linked'].map(
      (name) => `tools/${name}`,
    );
    tried.push('scripts/check.sh', 'docs/agents.md', 'CLAUDE.md', 'skills/a/SKILL.md', 'skills/new');
    const missing = [
      'around/post-checkout',
      'husky-files/pre-commit',
      'husky-files',
      'shared/gitconfig',
      'later/gitconfig',
      'team/lib/hooks/post-checkout',
    ];
    for (const git of ['read', 'write'] as const) {
      const { said } = await attack(
        `${writes(...tried, ...missing)}; mkdir -p later team/lib/hooks around husky-files; ${writes(...missing)}; mv tools old && echo wrote; mv docs old && echo wrote; rm .claude/skills && echo wrote; echo x > docs/free; echo x > tools/free && echo ok`,
        { git },
      );
      expect(said).not.toContain('wrote');
      expect(said).toContain('ok');
    }
    await until(
      () => !existsSync(join(ws, 'later')),
      10_000,
      () => `left: ${readdirSync(ws)}`,
    );
  });

  test('S7: a configuration that takes too long refuses the start, and the error names the repository', async () => {
    const config = (path: string, text: string) => put(`${path}/.git/config`, text);
    const refused = (words: RegExp) =>
      expect(attack('true')).rejects.toMatchObject({
        code: 'SANDBOX_UNAVAILABLE',
        message: expect.stringMatching(words),
      });
    const words = Array.from({ length: 3000 }, (_, at) => `f${at}`);
    for (const word of words.slice(0, 20)) put(`later/b/${word}`, '');
    config('later/b', `[alias]\nz = ${words.join(' ')}\n`);
    await refused(/for the folder "later\/b" contains a command with more paths than can be checked/);
    config('later/b', `[alias]\ny = ${words.slice(0, 1500).join(' ')}\nz = ${words.slice(1500).join(' ')}\n`);
    await refused(/for the folder "later\/b" names more than 2000 files, folders and words/);
    config('later/b', `[alias]\nz = ${words.slice(0, 1500).join(' ')}\n`);
    expect((await attack(`${writes('later/b/f0', 'later/b/f19')}; echo ok`)).said).toMatch(/(?<!wrote.*)ok\n$/s);
    config('later/b', '#'.repeat(525_000));
    await refused(/for the folder "later\/b" cannot be read: it is larger than 512 KiB/);
    const long = '#'.repeat(500_000);
    for (const name of ['b', 'c', 'd', 'e', 'f']) config(`later/${name}`, long);
    await refused(/for the folder "later\/." is larger than 2048 KiB, including the files that it includes/);
    rmSync(join(ws, 'later'), { recursive: true });
    for (let at = 0; at < 20; at++) {
      const missing = Array.from({ length: 40 }, (_, each) => `[include]\npath = ../m${each}\n`);
      config(`many/r${at}`, missing.join(''));
    }
    await refused(/it has more than 500 protected names that do not exist, up to "many\/r\d+\/m\d+"/);
    rmSync(join(ws, 'many'), { recursive: true });
    put('s/.npmrc', '#'.repeat(260_000));
    for (let at = 0; at < 70; at++) {
      mkdirSync(join(ws, `s/${at}`));
      linkSync(join(ws, 's/.npmrc'), join(ws, `s/${at}/.npmrc`));
    }
    await refused(/settings files are larger than 16 MiB in total, up to "s\/\d+\/\.npmrc"/);
  });

  test('S4: a socket of a process outside is not reached through the workspace', async () => {
    runGit(ws, ['init', '--quiet']);
    mkdirSync(join(ws, 'run'));
    const paths = ['run/db', '.git/daemon.ipc'];
    const servers = paths.map((path) => createServer((socket) => socket.end('reached')).listen(join(ws, path)));
    await Promise.all(servers.map((server) => once(server, 'listening')));
    const connect = (path: string) =>
      `require('net').connect('${path}').on('data', String).on('connect', () => console.log('reached')).on('error', (e) => console.log(e.code))`;
    const { said } = await attack(`${process.execPath} -e "${paths.map(connect).join(';')}"`);
    for (const server of servers) server.close();
    expect(said).toBe('ECONNREFUSED\nECONNREFUSED\n');
  });
});
