import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Mount } from '../../src/sandbox/common/confinement.ts';
import { findProgramOnPath } from '../../src/sandbox/common/find-program.ts';
import { createTmpRoot } from '../../src/sandbox/common/sweep-leftovers.ts';
import { createReaper, type Reaper } from '../../src/sandbox/reaper/reaper.ts';
import { createRunners } from '../../src/sandbox/runners.ts';
import { hasBwrap } from '../needs/bwrap.ts';
import { hasPodman } from '../needs/podman.ts';
import { ordinaryLimits } from './bwrap/sandbox-harness.ts';

const path = process.env['PATH'];
let folder: string;
let tmpRoot: string;
let reaper: Reaper;
beforeAll(async () => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'ambit-choice-')));
  tmpRoot = await createTmpRoot(folder);
  reaper = createReaper({ tmpRoot });
});
afterAll(async () => {
  process.env['PATH'] = path;
  await reaper.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What is chosen where these and no other programs can be found. */
async function chosenWith(programs: readonly string[], image?: string): Promise<unknown> {
  const bin = join(folder, `bin-${programs.join('-')}-${image ?? ''}`.replace(/[:/]/g, '-'));
  mkdirSync(bin);
  for (const name of programs) symlinkSync(findProgramOnPath(name, path) as string, join(bin, name));
  process.env['PATH'] = bin;
  const runners = createRunners({ reaper, tmpRoot, packages: join(folder, 'packages') });
  return runners.sandbox(image).then(
    ({ name }) => name,
    (error: unknown) => error,
  );
}

describe.skipIf(!hasBwrap() || !hasPodman())('the sandbox that is chosen', () => {
  test('P6: is bwrap, else a container, else none; never the runner without a sandbox', async () => {
    expect(await chosenWith(['bwrap', 'podman'])).toBe('bwrap');
    expect(await chosenWith(['podman'])).toBe('container');
    expect(await chosenWith([])).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      hint: expect.stringContaining('bubblewrap'),
    });
  });

  test('for an image is a container or none, even with bwrap', async () => {
    expect(await chosenWith(['bwrap', 'podman'], 'localhost/it:1')).toBe('container');
    expect(await chosenWith(['bwrap'], 'localhost/it:1')).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      hint: expect.stringContaining('podman'),
    });
  });

  test('refuses a volume unless it is a container engine', async () => {
    const { sandboxes } = createRunners({ reaper, tmpRoot, packages: join(folder, 'packages') });
    const [own] = sandboxes;
    const home: Mount = { source: folder, target: folder };
    const confinement = { home, volume: 'ambit-a-w', readable: [], writable: [], hidden: [], limits: ordinaryLimits };
    const launch = { command: '/bin/sh', args: [], env: {}, cwd: folder, tmpDir: join(tmpRoot, 'v1'), confinement };
    await expect(own?.start(launch)).rejects.toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringContaining('stored by a container engine'),
    });
  });
});
