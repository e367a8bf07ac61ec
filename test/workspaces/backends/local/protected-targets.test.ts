import { execFileSync } from 'node:child_process';
import {
  appendFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { openLocal } from '../../../../src/workspaces/backends/local/open-local.ts';
import { pathRules } from '../../../../src/workspaces/path-rules.ts';
import { runGit } from '../../../fixtures/hostile/builds-repository.js';
import { bytes, codeOf, contentOf, messageOf } from '../suite/suite-workspace.ts';

let outer: string;
let folder: string;
const opened: ReturnType<typeof openLocal>[] = [];
beforeEach(() => {
  outer = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-orders-')));
  folder = join(outer, 'ws');
  mkdirSync(folder);
});
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
  rmSync(outer, { recursive: true, force: true });
});

function openSession(...open: string[]): ReturnType<typeof openLocal> {
  const session = openLocal(folder, { rules: pathRules({ hide: [], keep: [], open }), sweep: false });
  opened.push(session);
  return session;
}

const at = (path: string) => join(folder, path);
function put(path: string, content = ''): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  writeFileSync(at(path), content, { mode: 0o755 });
}
function link(path: string, target: string): void {
  mkdirSync(dirname(at(path)), { recursive: true });
  symlinkSync(target, at(path));
}
function repository(path: string, settings = ''): void {
  runGit(outer, ['init', '--quiet', '--template=', at(path)]);
  appendFileSync(at(`${path}/.git/config`), settings);
}

/** What came of all that would put something else at a path: one code where all were refused alike. */
async function planting(session: ReturnType<typeof openLocal>, path: string): Promise<unknown> {
  const spare = `spare-${Math.random()}`;
  put(spare, 'planted');
  put(`${spare}-folder/pre-commit`, 'planted');
  const codes = [
    await codeOf(session.write(path, bytes('planted'))),
    await codeOf(session.mayWrite(path)),
    await codeOf(session.move(spare, path, { overwrite: true })),
    await codeOf(session.move(`${spare}-folder`, path)),
  ];
  return new Set(codes).size === 1 ? codes[0] : codes;
}

test('S4: the file tools do not change what the configuration of git names, there or not', async () => {
  const hook = `#!/bin/sh\ntouch ${join(outer, 'marker')}\n`;
  for (const name of ['tools/clean.sh', 'tools/second.sh', 'tools/target.sh', 'real/hook']) put(name);
  link('tools/linked', 'target.sh');
  link('way', 'real');
  put('shared/gitconfig', '[core]\neditor = tools/second.sh\n');
  repository(
    '.',
    `[core]
hooksPath = hooks
attributesFile = way/attributes
fsmonitor = ./tools/monitor.sh
[include] path = ../shared/gitconfig
[includeIf "gitdir:/nowhere/"] path = ../later/gitconfig
[filter "x"] clean = sh tools/clean.sh
[diff "y"] textconv = ./tools/linked
[init] templateDir = ${join(folder, 'template')}
`,
  );
  repository('team/lib', '[core]\nhooksPath = .hooks\n');
  const session = openSession();
  expect(await codeOf(session.write('hooks/pre-commit', bytes(hook)))).toBe('PATH_PROTECTED');
  put('note');
  runGit(folder, ['add', 'note']);
  runGit(folder, ['-c', 'core.fsmonitor=false', 'commit', '--quiet', '--message', 'work', 'note']);
  expect(existsSync(join(outer, 'marker'))).toBe(false);
  const closed = ['hooks', 'HOOKS/pre-commit', 'shared/gitconfig', 'later/gitconfig', 'later', 'way/attributes', 'way']
    .concat('tools/monitor.sh', 'tools/clean.sh', 'tools/second.sh', 'tools/linked', 'tools/target.sh')
    .concat('real/attributes', 'template/hooks/post-checkout', 'team/lib/.hooks/pre-commit');
  for (const path of closed) expect(await planting(session, path), path).toBe('PATH_PROTECTED');
  for (const path of ['tools', 'shared', 'team', 'way', 'real']) {
    if (path !== 'real') expect(await codeOf(session.move(path, 'carried')), path).toBe('PATH_PROTECTED');
    if (path !== 'real') expect(await codeOf(session.remove(path, { recursive: true })), path).toBe('PATH_PROTECTED');
  }
  expect(await messageOf(session.write('hooks/pre-commit', bytes(hook)))).toBe(
    '"hooks/pre-commit" may be read by sessions, but not changed: the configuration of git names it.',
  );
  for (const path of ['tools/free.sh', 'team/lib/src/x', 'hooks.md', 'free/hooks/x'])
    await session.write(path, bytes('x'));
  expect(await contentOf(session, 'tools/clean.sh')).toBe('');
  await openSession('hooks').write('hooks/pre-commit', bytes('opened by the operator'));
});

test('S4: the file tools keep scripts that commands of git reach by way of the shell', async () => {
  const scripts = 'abcdefghijklmno'.split('').map((name) => `t/${name}.sh`);
  for (const name of [...scripts, 'top.sh', 't/my clean.sh', 't/deep/p.sh']) put(name);
  const settings = {
    'filter.a.clean': '"$(git rev-parse --show-toplevel)/t/a.sh"',
    'filter.b.clean': '"$PWD/t/b.sh" %f',
    'filter.c.clean': 'cd t && ./c.sh',
    'alias.d': '!$(git rev-parse --show-toplevel 2>/dev/null)/t/d.sh',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell reads it.
    'filter.e.smudge': '${GIT_WORK_TREE:-.}/t/e.sh',
    'lfs.customtransfer.f.args': 't/f.sh',
    'filter.g.clean': '"`git rev-parse --show-toplevel`"/t/g.sh',
    'diff.h.textconv': 'sh -c \'d=t; exec "$d/h.sh" "$1"\'',
    'filter.i.clean': '"$GIT_DIR/../t/i.sh"',
    'filter.j.clean': '/somewhere/else/t/j.sh',
    'filter.k.clean': 'PATH=t:$PATH k.sh',
    'filter.l.clean': '"$(dirname "$(dirname "$X")")"/l.sh --in t/',
    'filter.m.clean': '"t"/"m".sh',
    'filter.n.clean': '"$TOOLS/top.sh"',
    'filter.o.clean': 'sh "t/my clean.sh"',
    'merge.p.driver': 'sh gone.sh %A',
    'filter.q.clean': '$X/t/later.sh',
    'filter.r.clean': 'python3 -c "import runpy; runpy.run_path(\'t/n.sh\')"',
    'annex.s-command': 't/o.sh',
    'filter.t.clean': 'cd t; cd deep; ./p.sh',
    'gitflow.path.hooks': 'flow',
  };
  repository('.');
  for (const [name, value] of Object.entries(settings)) runGit(folder, ['config', name, value]);
  const session = openSession();
  const closed = [...scripts, 'top.sh', 't/my clean.sh', 't/deep/p.sh', 'gone.sh', 't/later.sh', 'flow/pre-flow'];
  for (const path of closed) expect(await codeOf(session.write(path, bytes('x'))), path).toBe('PATH_PROTECTED');
  for (const path of ['t/free.sh', 'clean', 'later.sh', 'x/t/b.sh']) await session.write(path, bytes('x'));
});

test('S4: a command of git that names more than can be looked at closes the files', async () => {
  repository('.');
  put('free');
  const session = openSession();
  const command = Array.from({ length: 400 }, (_, each) => `cd d${each} && ./x${each}`).join(' && ');
  appendFileSync(at('.git/config'), `[filter "x"]\nclean = "${command}"\n`);
  expect(await messageOf(session.write('free', bytes('y')))).toMatch(/the configuration of git holds a command/);
});

test('S4: the file tools look at the configuration of git as it is now, and in the repository around the workspace', async () => {
  const session = openSession();
  await session.write('hooks/x', bytes('x'));
  runGit(outer, ['init', '--quiet', '.']);
  runGit(outer, ['config', 'core.hooksPath', 'ws/hooks']);
  expect(await planting(session, 'hooks/x')).toBe('PATH_PROTECTED');
  runGit(outer, ['config', 'core.hooksPath', 'ws/other']);
  await session.write('hooks/x', bytes('y'));
  expect(await planting(session, 'other/x')).toBe('PATH_PROTECTED');
  // The workspace may be a worktree, whose configuration lies in another folder.
  rmSync(join(outer, '.git'), { recursive: true });
  runGit(outer, ['init', '--quiet', 'main']);
  runGit(join(outer, 'main'), ['commit', '--quiet', '--allow-empty', '--message', 'first']);
  runGit(join(outer, 'main'), ['worktree', 'add', '--quiet', '../tree']);
  renameSync(join(outer, 'tree/.git'), at('.git'));
  await session.write('other/x', bytes('y'));
  runGit(join(outer, 'main'), ['config', 'core.hooksPath', 'hooks']);
  expect(await planting(session, 'hooks/x')).toBe('PATH_PROTECTED');
});

test('S7: the file tools change nothing where too much would have to be looked at first', async () => {
  const words = (count: number) => Array.from({ length: count }, (_, each) => `w${each}`).join(' ');
  const session = openSession();
  put('a/.git/config', `[alias]\nz = ${words(1001)}\n`);
  expect(await messageOf(session.write('a/x', bytes('x')))).toMatch(
    /git names more than 1000 files, folders and words/,
  );
  put('a/.git/config', `[include]\npath = more\n`);
  put('a/.git/more', '#'.repeat(525_000));
  expect(await messageOf(session.write('a/x', bytes('x')))).toMatch(/larger than 512 KiB/);
  // Each is within bounds. All on one way are not.
  for (let depth = 1; depth <= 15; depth++) put(`${'a/'.repeat(depth)}.git/config`, `[alias]\nz = ${words(900)}\n`);
  await session.write('a/a/x', bytes('x'));
  expect(await messageOf(session.write(`${'a/'.repeat(15)}x`, bytes('x')))).toMatch(/more in the folders on the way/);
});

test('S4: the file tools do not change what a protected link leads to', async () => {
  for (const name of ['scripts/check.sh', 'docs/orders.md', 'skills/a/SKILL.md', 'deep/docs/orders.md']) put(name);
  repository('.');
  link('.git/hooks/pre-commit', '../../scripts/check.sh');
  link('.husky', 'tools/husky');
  link('CLAUDE.md', 'docs/orders.md');
  link('.claude/skills', '../skills');
  link('deep/AGENTS.md', 'docs/orders.md');
  link('deep/.cargo/config.toml', '../cargo.toml');
  const session = openSession();
  const closed = [
    'scripts/check.sh',
    'tools/husky/pre-commit',
    'docs/orders.md',
    'skills/a/SKILL.md',
    'skills/b',
  ].concat('deep/docs/orders.md', 'deep/cargo.toml');
  for (const path of closed) expect(await planting(session, path), path).toBe('PATH_PROTECTED');
  for (const path of ['scripts/free.sh', 'docs/free.md']) await session.write(path, bytes('x'));
  expect(await messageOf(session.write('docs/orders.md', bytes('')))).toBe(
    '"docs/orders.md" may be read by sessions, but not changed: a protected link leads to it.',
  );
});

test('S4: where the configuration of git cannot be read within bounds, the file tools change nothing', async () => {
  repository('.');
  put('free', 'x');
  const session = openSession();
  const config = at('.git/config');
  const hostile: Record<string, () => void> = {
    'too large': () => writeFileSync(config, `# ${'x'.repeat(1 << 20)}\n[core]\nhooksPath = hooks\n`),
    'too many includes': () => {
      const names = Array.from({ length: 60 }, (_, each) => `i${each}`);
      writeFileSync(config, names.map((name) => `[include]\npath = ${name}\n`).join(''));
      for (const name of names) writeFileSync(at(`.git/${name}`), '');
    },
    'a pipe': () => {
      rmSync(config);
      execFileSync('mkfifo', [config]);
    },
  };
  for (const [what, make] of Object.entries(hostile)) {
    make();
    expect(await codeOf(session.write('free', bytes('y'))), what).toBe('PATH_PROTECTED');
    expect(await contentOf(session, 'free'), what).toBe('x');
    expect(await messageOf(session.write('free', bytes('y'))), what).toMatch(
      /the configuration of git (?:cannot be read|includes more than)/,
    );
  }
  rmSync(config);
  writeFileSync(config, '');
  await session.write('free', bytes('y'));
});
