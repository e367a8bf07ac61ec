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
import { createPathRules } from '../../../../src/workspaces/path-guard.ts';
import { runGit } from '../../../fixtures/hostile/builds-repository.js';
import { readContent, refusalCode, refusalMessage, toBytes } from '../suite/suite-workspace.ts';

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
  const session = openLocal(folder, { rules: createPathRules({ hide: [], keep: [], open }), sweep: false });
  opened.push(session);
  return session;
}

const pathInFolder = (path: string) => join(folder, path);
function writeTestFile(path: string, content = ''): void {
  mkdirSync(dirname(pathInFolder(path)), { recursive: true });
  writeFileSync(pathInFolder(path), content, { mode: 0o755 });
}
function makeTestLink(path: string, target: string): void {
  mkdirSync(dirname(pathInFolder(path)), { recursive: true });
  symlinkSync(target, pathInFolder(path));
}
function makeRepository(path: string, settings = ''): void {
  runGit(outer, ['init', '--quiet', '--template=', pathInFolder(path)]);
  appendFileSync(pathInFolder(`${path}/.git/config`), settings);
}

/** Tries every way to replace a path; returns one code where all are refused alike. */
async function tryToReplace(session: ReturnType<typeof openLocal>, path: string): Promise<unknown> {
  const spare = `spare-${Math.random()}`;
  writeTestFile(spare, 'planted');
  writeTestFile(`${spare}-folder/pre-commit`, 'planted');
  const codes = [
    await refusalCode(session.write(path, toBytes('planted'))),
    await refusalCode(session.mayWrite(path)),
    await refusalCode(session.move(spare, path, { overwrite: true })),
    await refusalCode(session.move(`${spare}-folder`, path)),
  ];
  return new Set(codes).size === 1 ? codes[0] : codes;
}

test('S4: the file tools do not change paths that the git configuration names, existing or not', async () => {
  const hook = `#!/bin/sh\ntouch ${join(outer, 'marker')}\n`;
  for (const name of ['tools/clean.sh', 'tools/second.sh', 'tools/target.sh', 'real/hook']) writeTestFile(name);
  makeTestLink('tools/linked', 'target.sh');
  makeTestLink('way', 'real');
  writeTestFile('shared/gitconfig', '[core]\neditor = tools/second.sh\n');
  makeRepository(
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
  makeRepository('team/lib', '[core]\nhooksPath = .hooks\n');
  const session = openSession();
  expect(await refusalCode(session.write('hooks/pre-commit', toBytes(hook)))).toBe('PATH_PROTECTED');
  writeTestFile('note');
  runGit(folder, ['add', 'note']);
  runGit(folder, ['-c', 'core.fsmonitor=false', 'commit', '--quiet', '--message', 'work', 'note']);
  expect(existsSync(join(outer, 'marker'))).toBe(false);
  const closed = ['hooks', 'HOOKS/pre-commit', 'shared/gitconfig', 'later/gitconfig', 'later', 'way/attributes', 'way']
    .concat('tools/monitor.sh', 'tools/clean.sh', 'tools/second.sh', 'tools/linked', 'tools/target.sh')
    .concat('real/attributes', 'template/hooks/post-checkout', 'team/lib/.hooks/pre-commit');
  for (const path of closed) expect(await tryToReplace(session, path), path).toBe('PATH_PROTECTED');
  for (const path of ['tools', 'shared', 'team', 'way', 'real']) {
    if (path !== 'real') expect(await refusalCode(session.move(path, 'carried')), path).toBe('PATH_PROTECTED');
    if (path !== 'real')
      expect(await refusalCode(session.remove(path, { recursive: true })), path).toBe('PATH_PROTECTED');
  }
  expect(await refusalMessage(session.write('hooks/pre-commit', toBytes(hook)))).toBe(
    '"hooks/pre-commit" may be read by sessions, but not changed: the git configuration uses it.',
  );
  for (const path of ['tools/free.sh', 'team/lib/src/x', 'hooks.md', 'free/hooks/x'])
    await session.write(path, toBytes('x'));
  expect(await readContent(session, 'tools/clean.sh')).toBe('');
  await openSession('hooks').write('hooks/pre-commit', toBytes('opened by the operator'));
});

test('S4: the file tools do not change scripts that git commands reach through the shell', async () => {
  const scripts = 'abcdefghijklmno'.split('').map((name) => `t/${name}.sh`);
  for (const name of [...scripts, 'top.sh', 't/my clean.sh', 't/deep/p.sh']) writeTestFile(name);
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
  makeRepository('.');
  for (const [name, value] of Object.entries(settings)) runGit(folder, ['config', name, value]);
  const session = openSession();
  const closed = [...scripts, 'top.sh', 't/my clean.sh', 't/deep/p.sh', 'gone.sh', 't/later.sh', 'flow/pre-flow'];
  for (const path of closed) expect(await refusalCode(session.write(path, toBytes('x'))), path).toBe('PATH_PROTECTED');
  for (const path of ['t/free.sh', 'clean', 'later.sh', 'x/t/b.sh']) await session.write(path, toBytes('x'));
});

test('S4: a git command that names too many paths makes the files read-only', async () => {
  makeRepository('.');
  writeTestFile('free');
  const session = openSession();
  const command = Array.from({ length: 400 }, (_, each) => `cd d${each} && ./x${each}`).join(' && ');
  appendFileSync(pathInFolder('.git/config'), `[filter "x"]\nclean = "${command}"\n`);
  expect(await refusalMessage(session.write('free', toBytes('y')))).toMatch(
    /the configuration of git contains a command/,
  );
});

test('S4: the file tools use the current git configuration, also of the repository around the workspace', async () => {
  const session = openSession();
  await session.write('hooks/x', toBytes('x'));
  runGit(outer, ['init', '--quiet', '.']);
  runGit(outer, ['config', 'core.hooksPath', 'ws/hooks']);
  expect(await tryToReplace(session, 'hooks/x')).toBe('PATH_PROTECTED');
  runGit(outer, ['config', 'core.hooksPath', 'ws/other']);
  await session.write('hooks/x', toBytes('y'));
  expect(await tryToReplace(session, 'other/x')).toBe('PATH_PROTECTED');
  // The workspace may be a worktree, whose configuration lies in another folder.
  rmSync(join(outer, '.git'), { recursive: true });
  runGit(outer, ['init', '--quiet', 'main']);
  runGit(join(outer, 'main'), ['commit', '--quiet', '--allow-empty', '--message', 'first']);
  runGit(join(outer, 'main'), ['worktree', 'add', '--quiet', '../tree']);
  renameSync(join(outer, 'tree/.git'), pathInFolder('.git'));
  await session.write('other/x', toBytes('y'));
  runGit(join(outer, 'main'), ['config', 'core.hooksPath', 'hooks']);
  expect(await tryToReplace(session, 'hooks/x')).toBe('PATH_PROTECTED');
});

test('S7: the file tools change nothing where the check would cost too much', async () => {
  const words = (count: number) => Array.from({ length: count }, (_, each) => `w${each}`).join(' ');
  const session = openSession();
  writeTestFile('a/.git/config', `[alias]\nz = ${words(1001)}\n`);
  expect(await refusalMessage(session.write('a/x', toBytes('x')))).toMatch(
    /git names more than 1000 files, folders and words/,
  );
  writeTestFile('a/.git/config', `[include]\npath = more\n`);
  writeTestFile('a/.git/more', '#'.repeat(525_000));
  expect(await refusalMessage(session.write('a/x', toBytes('x')))).toMatch(/larger than 512 KiB/);
  // Each is within bounds. All on one way are not.
  for (let depth = 1; depth <= 15; depth++)
    writeTestFile(`${'a/'.repeat(depth)}.git/config`, `[alias]\nz = ${words(900)}\n`);
  await session.write('a/a/x', toBytes('x'));
  expect(await refusalMessage(session.write(`${'a/'.repeat(15)}x`, toBytes('x')))).toMatch(
    /more paths protected by git/,
  );
});

test('S4: the file tools do not change the target of a protected link', async () => {
  for (const name of ['scripts/check.sh', 'docs/orders.md', 'skills/a/SKILL.md', 'deep/docs/orders.md'])
    writeTestFile(name);
  makeRepository('.');
  makeTestLink('.git/hooks/pre-commit', '../../scripts/check.sh');
  makeTestLink('.husky', 'tools/husky');
  makeTestLink('CLAUDE.md', 'docs/orders.md');
  makeTestLink('.claude/skills', '../skills');
  makeTestLink('deep/AGENTS.md', 'docs/orders.md');
  makeTestLink('deep/.cargo/config.toml', '../cargo.toml');
  const session = openSession();
  const closed = [
    'scripts/check.sh',
    'tools/husky/pre-commit',
    'docs/orders.md',
    'skills/a/SKILL.md',
    'skills/b',
  ].concat('deep/docs/orders.md', 'deep/cargo.toml');
  for (const path of closed) expect(await tryToReplace(session, path), path).toBe('PATH_PROTECTED');
  for (const path of ['scripts/free.sh', 'docs/free.md']) await session.write(path, toBytes('x'));
  expect(await refusalMessage(session.write('docs/orders.md', toBytes('')))).toBe(
    '"docs/orders.md" may be read by sessions, but not changed: a protected symbolic link leads to it.',
  );
});

test('S4: the file tools change nothing where the git configuration is too large to read', async () => {
  makeRepository('.');
  writeTestFile('free', 'x');
  const session = openSession();
  const config = pathInFolder('.git/config');
  const hostile: Record<string, () => void> = {
    'too large': () => writeFileSync(config, `# ${'x'.repeat(1 << 20)}\n[core]\nhooksPath = hooks\n`),
    'too many includes': () => {
      const names = Array.from({ length: 60 }, (_, each) => `i${each}`);
      writeFileSync(config, names.map((name) => `[include]\npath = ${name}\n`).join(''));
      for (const name of names) writeFileSync(pathInFolder(`.git/${name}`), '');
    },
    'a pipe': () => {
      rmSync(config);
      execFileSync('mkfifo', [config]);
    },
  };
  for (const [what, make] of Object.entries(hostile)) {
    make();
    expect(await refusalCode(session.write('free', toBytes('y'))), what).toBe('PATH_PROTECTED');
    expect(await readContent(session, 'free'), what).toBe('x');
    expect(await refusalMessage(session.write('free', toBytes('y'))), what).toMatch(
      /the configuration of git (?:cannot be read|includes more than)/,
    );
  }
  rmSync(config);
  writeFileSync(config, '');
  await session.write('free', toBytes('y'));
});
