import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Guard } from '../../../src/runners/confinement.ts';
import { runGit } from '../../fixtures/hostile/builds-repository.js';
import { hasBwrap } from '../../needs/bwrap.ts';
import { until } from '../tagged-processes.ts';
import { createSandboxHarness, type SandboxHarness } from './sandbox-harness.ts';

let harness: SandboxHarness;
let ws: string;
let marker: string;

/** What a shell in the sandbox says, and why it ended, if Ambit ended it. */
async function attack(script: string, guard: Guard = { git: 'read' }): Promise<{ said: string; reason?: string }> {
  const launch = harness.launch(['-c', `exec 2>&1; ${script}`]);
  if (launch.confinement === undefined) throw new Error('Nothing says what it may do.');
  const confinement = { ...launch.confinement, home: { real: ws, inside: ws, guard } };
  const running = await harness.runner.start({ ...launch, command: '/bin/sh', confinement });
  const [said, , exit] = await Promise.all([text(running.stdout), text(running.stderr), running.exited]);
  return { said, ...(exit.reason === undefined ? {} : { reason: exit.reason }) };
}

/** As a prompt or an editor of the operator does. */
function operate(folder = '.'): void {
  try {
    runGit(join(ws, folder), ['status', '--short']);
  } catch {
    // It is no repository: all the better.
  }
}

/** Makes a folder a repository that runs a command, without the name `.git`. */
const becomesRepository = () =>
  `mkdir -p objects refs; echo ref: refs/heads/main > HEAD; printf '[core]\nbare=false\nworktree=.\nfsmonitor="touch ${marker}; false"\n' > config`;

describe.skipIf(!hasBwrap())('S4: what a server in a sandbox leaves for the git of the operator', () => {
  beforeEach(async () => {
    harness = await createSandboxHarness();
    ws = join(harness.folder, 'ws');
    marker = join(harness.folder, 'marker');
  });
  afterEach(() => harness.stop());

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
    runGit(harness.folder, ['init', '--quiet']);
    // The rules of a workspace let a session write what has an ordinary name.
    const mayWrite = (names: readonly string[]) => !names.includes('.git');
    const { reason } = await attack(`${becomesRepository()}; exec sleep 60`, { git: 'read', mayWrite });
    expect(reason).toMatch(/^"HEAD", which servers in a sandbox may only read, is new/);
  });

  test('S4: a workspace that is a bare repository is guarded like one', async () => {
    runGit(ws, ['init', '--quiet', '--bare']);
    for (const git of ['read', 'write'] as const) {
      const tried = ['config', 'config.worktree', 'commondir', 'hooks/post-checkout', 'info/attributes'];
      const { said } = await attack(`for each in ${tried.join(' ')}; do (echo x >> $each) && echo wrote $each; done`, {
        git,
      });
      expect(said).not.toContain('wrote');
    }
  });
});
