import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { isolateNpx } from '../../../src/sandbox/plain/plain.ts';
import { startRegistry } from '../packages/tiny-registry.ts';
import { createHarness, linesOf } from '../runner-harness.ts';

const program = `#!/usr/bin/env node
const { INIT_CWD, npm_config_prefix, npm_config_script_shell } = process.env;
const env = { INIT_CWD, npm_config_prefix, npm_config_script_shell };
console.log(JSON.stringify({ cwd: process.cwd(), args: process.argv.slice(2), env }));
`;

test('S4: npx of a direct session runs the package, whatever lies in the workspace in its place', async () => {
  const harness = await createHarness();
  onTestFinished(() => harness.stop());
  const registry = await startRegistry();
  onTestFinished(() => registry.stop());
  registry.publish({ name: 'some-server', version: '1.0.0', bin: 'some.js' }, { 'some.js': program });
  const workspace = join(realpathSync(harness.tmpParent), "the user's files");
  const bin = join(workspace, 'node_modules/.bin');
  const taken = join(harness.tmpParent, 'taken');
  const hostile = `#!/bin/sh\necho "$0" >> '${taken}'\n`;
  mkdirSync(bin, { recursive: true });
  mkdirSync(join(workspace, 'node_modules/some-server'));
  for (const name of ['some-server', 'npx', 'npm', 'node', 'sh', 'env', 'shell']) {
    writeFileSync(join(bin, name), hostile, { mode: 0o755 });
  }
  const manifest = { name: 'some-server', version: '1.0.0', bin: '../.bin/some-server', scripts: { npx: 'shell' } };
  writeFileSync(join(workspace, 'node_modules/some-server/package.json'), JSON.stringify(manifest));
  writeFileSync(join(workspace, 'package.json'), JSON.stringify(manifest));
  writeFileSync(join(workspace, '.npmrc'), `script-shell=${bin}/shell\nregistry=http://127.0.0.1:9/\n`);

  const { env, tmpDir } = harness.launch('echoes-lines');
  const home = join(harness.tmpParent, 'home');
  mkdirSync(home);
  const { PATH } = process.env;
  const running = await harness.runner.start({
    command: 'npx',
    args: ['-y', 'some-server', '--flag', "it's $HOME"],
    env: { ...env, PATH: `${bin}:.:${PATH}`, HOME: home, npm_config_registry: registry.url },
    cwd: workspace,
    tmpDir,
  });
  const said = await linesOf(running)();
  expect(existsSync(taken) ? readFileSync(taken, 'utf8') : 'nothing').toBe('nothing');
  expect(JSON.parse(said ?? '')).toEqual({
    cwd: workspace,
    args: ['--flag', "it's $HOME"],
    env: { INIT_CWD: workspace },
  });
  expect(await running.exited).toMatchObject({ code: 0 });
});

test.each([
  ['another program', 'node', ['-y', 'some-server']],
  ['a file called npx', './npx', ['-y', 'some-server']],
  ['a package of the workspace', 'npx', ['-y', './packages/server']],
  ['only what is installed', 'npx', ['--no-install', 'some-server']],
])('%s starts as it is', (_, command, args) => {
  const start = { command, args, env: {}, cwd: '/w', tmpDir: '/t' };
  expect(isolateNpx(start)).toBe(start);
});
