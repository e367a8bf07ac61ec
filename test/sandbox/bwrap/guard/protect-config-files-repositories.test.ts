import { once } from 'node:events';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { Guard } from '../../../../src/sandbox/common/confinement.ts';
import { createContainerRunner } from '../../../../src/sandbox/container/container.ts';
import type { ProcessLaunch, SandboxRunner } from '../../../../src/sandbox/runner.ts';
import { buildHostileGround, runGit, secrets } from '../../../fixtures/hostile/builds-repository.js';
import { hasBwrap } from '../../../needs/bwrap.ts';
import { hasPodman } from '../../../needs/podman.ts';
import { proof } from '../../../proof.ts';
import { repository } from '../../../structure/source-files.ts';
import { until } from '../../tagged-processes.ts';
import { createSandboxHarness, does, type SandboxHarness } from '../sandbox-harness.ts';

const plants = join(repository, 'test/fixtures/hostile/plants-traps.js');
let harness: SandboxHarness;
let ws: string;
let marker: string;

/** Built once, and copied for each test. */
const built = mkdtempSync(join(tmpdir(), 'ambit-hostile-'));
beforeAll(() => void buildHostileGround(built));
afterAll(() => rmSync(built, { recursive: true, force: true }));

async function startHarness(create?: Parameters<typeof createSandboxHarness>[2]): Promise<void> {
  harness = await createSandboxHarness(undefined, undefined, create);
  marker = join(harness.folder, 'marker');
  ws = join(harness.folder, 'ws');
  cpSync(join(built, 'ws'), ws, { recursive: true, verbatimSymlinks: true });
}

function confinedTo(guard: Guard, { confinement }: ProcessLaunch): Pick<ProcessLaunch, 'confinement'> {
  if (confinement === undefined) throw new Error('Nothing says what it may do.');
  return { confinement: { ...confinement, home: { source: ws, target: ws, guard } } };
}

/** What the server inside could change and read, when it tried everything. */
async function attacked(
  guard: Guard,
  runner: SandboxRunner = harness.runner,
): Promise<{ done: string[]; seen: string }> {
  const launch = harness.launch([plants, `touch ${marker}`]);
  // It is not to be ended before it has tried everything, because of what it makes on the way.
  const mayWrite = ([name = '']: readonly string[]) => ['elsewhere', 'copied', 'carried'].includes(name);
  const running = await runner.start({ ...launch, ...confinedTo({ ...guard, mayWrite }, launch) });
  running.stdin.end();
  const [said, complaints] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
  expect(complaints).toBe('');
  return JSON.parse(said) as { done: string[]; seen: string };
}

/** The operator goes on working: each of these makes git read what it is configured by, and run hooks if there are any. */
function operate(): void {
  for (const folder of ['.', 'deps/there', 'packages/nested']) {
    runGit(join(ws, folder), ['status', '--short']);
    writeFileSync(join(ws, folder, 'note'), `changed in ${folder}`);
    runGit(join(ws, folder), ['commit', '--quiet', '--message', 'work', 'note']);
    runGit(join(ws, folder), ['checkout', '--quiet', '-B', 'other']);
  }
  runGit(ws, ['diff', '--submodule=log']);
}

describe.skipIf(!hasBwrap())('S4: the repositories of a workspace', () => {
  beforeEach(async () => {
    await startHarness();
  });
  afterEach(() => harness.stop());

  test('S4: a server in a sandbox that tries every path gets nothing run by the git of the operator', async () => {
    const { done, seen } = await attacked({ git: 'read' });
    expect(done.filter((what) => !what.includes('elsewhere'))).toEqual([]);
    operate();
    expect(existsSync(marker)).toBe(false);
    for (const secret of secrets) expect(seen).not.toContain(secret);
    expect(seen).toContain('fund=false');
    expect(readFileSync(join(ws, '.npmrc'), 'utf8')).toContain(secrets[2]);
  });

  test('S4: where the repository may be written, what git runs or is configured by may not', async () => {
    const before = runGit(ws, ['config', '--list', '--local']);
    const { done, seen } = await attacked({ git: 'write' });
    expect(done).toContain('write .git/HEAD');
    const rules = /\.git(?:\/modules\/\S+|\/worktrees\/\S+)?\/(?:config|hooks|info|commondir)/;
    expect(done.filter((what) => rules.test(what) && !/\.git\S*\.new|elsewhere/.test(what))).toEqual([]);
    for (const secret of secrets) expect(seen).not.toContain(secret);
    writeFileSync(join(ws, '.git/HEAD'), 'ref: refs/heads/master\n');
    operate();
    expect(existsSync(marker)).toBe(false);
    expect(runGit(ws, ['config', '--list', '--local'])).toBe(before);
    // What stood in for missing names goes with the last process.
    const left = () =>
      ['commondir', 'config.worktree', 'worktrees'].filter((name) => existsSync(join(ws, '.git', name)));
    await until(
      () => left().length === 0,
      10_000,
      () => `left: ${left()}`,
    );
  });
});

test.skipIf(!hasBwrap() || !proof)(
  'S4: a folder without a repository gets none, and nothing is left in it',
  async () => {
    await startHarness();
    try {
      rmSync(join(ws, '.git'), { recursive: true });
      const [one, other] = await Promise.all([attacked({ git: 'read' }), attacked({ git: 'write' })]);
      for (const { done } of [one, other]) expect(done.filter((what) => / \.git/.test(what))).toEqual([]);
      await until(
        () => !existsSync(join(ws, '.git')),
        10_000,
        () => 'the folder that stood in for the repository is still there',
      );
    } finally {
      await harness.stop();
    }
  },
);

test.skipIf(!hasBwrap())(
  'S4: a server is ended when a guarded file was replaced, or a guarded name is new',
  async () => {
    await startHarness();
    try {
      const guard = { git: 'read', mayWrite: ([name]: readonly string[]) => name === '.envrc' } as const;
      const reasonAfter = async (change: () => void) => {
        const launch = harness.launch([does, 'nothing']);
        const running = await harness.runner.start({ ...launch, ...confinedTo(guard, launch) });
        await once(running.stdout, 'data');
        change();
        return (await running.exited).reason;
      };
      const replaced = () => {
        writeFileSync(join(ws, 'AGENTS.md'), 'changed in place');
        renameSync(join(ws, 'note'), join(ws, 'AGENTS.md'));
      };
      const made = () => {
        writeFileSync(join(ws, '.envrc'), 'opened by the operator');
        writeFileSync(join(ws, '.windsurfrules'), '');
      };
      const nested = () => {
        for (const name of ['objects', 'refs', 'HEAD']) mkdirSync(join(ws, 'docs', name), { recursive: true });
      };
      expect(await reasonAfter(nested)).toMatch(/^"docs\/HEAD", which is read-only for sandboxed servers, was created/);
      expect(await reasonAfter(replaced)).toMatch(/^"AGENTS\.md", which is read-only for it, was replaced/);
      expect(await reasonAfter(made)).toMatch(
        /^"\.windsurfrules", which is read-only for sandboxed servers, was created/,
      );
    } finally {
      await harness.stop();
    }
  },
);

// The mounts are the same ones; what differs is who makes them.
test.skipIf(!hasPodman() || !proof)(
  'S4: a server in a container gets nothing run by the git of the operator either',
  async () => {
    await startHarness(createContainerRunner);
    try {
      const { done, seen } = await attacked({ git: 'read' });
      expect(done.filter((what) => !what.includes('elsewhere'))).toEqual([]);
      operate();
      expect(existsSync(marker)).toBe(false);
      for (const secret of secrets) expect(seen).not.toContain(secret);
    } finally {
      await harness.stop();
    }
  },
);
