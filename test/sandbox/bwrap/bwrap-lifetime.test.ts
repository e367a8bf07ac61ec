import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { createBwrapRunner } from '../../../src/sandbox/bwrap/bwrap.ts';
import { findProgramOnPath } from '../../../src/sandbox/common/find-program.ts';
import { sweepLeftovers } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { createLimiter, type Limiter } from '../../../src/sandbox/limits/limiter.ts';
import { hasBwrap } from '../../needs/bwrap.ts';
import { counts } from '../../proof.ts';
import { canChange } from '../../workspaces/saferoot/accounts.ts';
import { until } from '../tagged-processes.ts';
import { createSandboxHarness, does, processesIn, type SandboxHarness } from './sandbox-harness.ts';

let harness: SandboxHarness;

/** A script that starts the real bwrap with its arguments, which come on descriptor 3, changed by some Perl. */
const bwrapWithOtherArguments = (perl: string): string => {
  const steps = [
    'use POSIX; open(my $in, "<&=", 3); local $/; $_ = <$in>;',
    perl,
    'pipe(my $out, my $to); print $to $_; close $to; POSIX::dup2(fileno($out), 3);',
    `exec "${findProgramOnPath('bwrap', process.env['PATH'])}", @ARGV;`,
  ];
  return `#!/bin/sh\nexec /usr/bin/perl -e '${steps.join(' ')}' -- "$@"\n`;
};

/** Those that have left their parent stand beside the first process and the server. */
const leftBehind = () =>
  until(
    () => processesIn(harness.folder).length > 3,
    5000,
    () => 'nothing was left behind',
  );

describe.skipIf(!hasBwrap())('what is in a sandbox', () => {
  beforeAll(async () => {
    harness = await createSandboxHarness();
  });
  afterAll(() => harness.stop());

  test('ends when it is told to, with all it left behind, whatever it does about signals', async () => {
    const { running } = await harness.started(['daemon']);
    await leftBehind();
    await running.end();
    await harness.allGone();
    await harness.reaper.settled();
    expect(readdirSync(harness.root).filter((name) => name.startsWith('p'))).toEqual([]);
  });

  test('ends when bwrap is killed', async () => {
    const { running } = await harness.started(['daemon']);
    process.kill(running.pid as number, 'SIGKILL');
    expect(await running.exited).toEqual({ code: null, signal: 'SIGKILL' });
    await harness.allGone();
  });

  test('ends when Ambit is killed, and when its reaper is killed with it', async () => {
    for (const withReaper of [false, true]) {
      const child = fork(join(import.meta.dirname, 'starts-and-waits.js'), [harness.folder, does], {
        stdio: 'inherit',
      });
      onTestFinished(() => void child.kill('SIGKILL'));
      const [said] = (await once(child, 'message')) as [{ reaper: number }];
      await leftBehind();
      if (withReaper) process.kill(said.reaper, 'SIGKILL');
      const exited = once(child, 'exit');
      child.kill('SIGKILL');
      // As long as it is there, also as a zombie, what it made is not swept as left over.
      await exited;
      await harness.allGone();
      if (withReaper) await sweepLeftovers(join(harness.folder, 'tmp'));
      await harness.nothingLeft();
    }
  });

  test('is not started when the check before the start throws', async () => {
    const launch = harness.launch(['-e', 'require("fs").writeFileSync("ran", "")']);
    const beforeSpawn = () => {
      throw new Error('not any more');
    };
    await expect(harness.runner.start({ ...launch, beforeSpawn })).rejects.toThrow('not any more');
    await harness.allGone();
    expect(readdirSync(join(harness.folder, 'ws'))).toEqual([]);
    expect(readdirSync(harness.root)).not.toContain(basename(launch.tmpDir));
    expect(harness.groups()).toEqual([]);
  });

  test('is not started without its limits, nor when it is killed as it starts', async () => {
    const fates = [
      () => Promise.reject(new Error('no group')),
      async (pid: number) => void process.kill(pid, 'SIGKILL'),
    ];
    for (const admit of fates) {
      const usual = createLimiter([]);
      const limiter: Limiter = {
        inForce: usual.inForce,
        bound: async (limits, tmpDir, owner) => ({ ...(await usual.bound(limits, tmpDir, owner)), admit }),
      };
      const { reaper, root: tmpRoot } = harness;
      const launch = harness.launch(['-e', 'require("fs").writeFileSync("ran", "")']);
      await expect(createBwrapRunner({ reaper, tmpRoot, limiter }).start(launch)).rejects.toThrow();
      await harness.allGone();
      expect(readdirSync(join(harness.folder, 'ws'))).toEqual([]);
    }
  });

  test('leaves nothing behind, many times over', async () => {
    const lives = counts(10, 500);
    for (let life = 0; life < lives; life += 5) {
      const batch = await Promise.all(
        Array.from({ length: 5 }, () => harness.runner.start(harness.launch(['-e', 'process.stdin.resume()']))),
      );
      const exits = await Promise.all(batch.map((running) => running.end()));
      expect(exits.filter(({ signal }) => signal !== null && signal !== 'SIGTERM')).toEqual([]);
    }
    await harness.allGone();
    await harness.reaper.settled();
    expect(readdirSync(harness.root).filter((name) => /^p/.test(name))).toEqual([]);
    expect(harness.groups()).toEqual([]);
    const open = readdirSync('/proc/self/fd').length;
    await (await harness.runner.start(harness.launch(['-e', '0']))).exited;
    // Its pipes are closed a moment after its exit is told.
    await until(
      () => readdirSync('/proc/self/fd').length <= open,
      5000,
      () => 'a descriptor is left open',
    );
  });
});

describe('without a sandbox that works', () => {
  afterEach(() => harness?.stop());

  const fake = async (script: string | undefined) => {
    let path = '';
    harness = await createSandboxHarness(() => path);
    path = join(harness.folder, 'bin');
    mkdirSync(path);
    if (script !== undefined) writeFileSync(join(path, 'bwrap'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    const ran = join(harness.folder, 'ws/ran');
    const launch = harness.launch(['-e', `require("fs").writeFileSync(${JSON.stringify(ran)}, "")`]);
    const refusal = await harness.runner.start(launch).catch((error: unknown) => error);
    expect(readdirSync(join(harness.folder, 'ws'))).toEqual([]);
    expect(readdirSync(harness.root).filter((name) => name.startsWith('p') && !name.startsWith('probe'))).toEqual([]);
    return refusal;
  };

  test('nothing starts when there is no bwrap, and the package is named', async () => {
    expect(await fake(undefined)).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringContaining('"bwrap" was not found on the PATH'),
      hint: expect.stringMatching(/bubblewrap/),
    });
  });

  test('nothing starts when bwrap fails, and the error shows no path of the machine', async () => {
    const refusal = await fake('echo "bwrap: setting up uid map: Permission denied in /srv/secret" >&2; exit 1');
    expect(refusal).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringContaining('setting up uid map'),
      hint: expect.stringMatching(/./),
    });
    expect((refusal as Error).message).not.toContain('/srv');
  });

  test('nothing starts when bwrap is too old', async () => {
    expect(await fake('echo "bwrap: Unknown option --disable-userns" >&2; exit 1')).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      hint: expect.stringContaining('0.8 or newer'),
    });
  });

  test('nothing starts in a fake bwrap that confines nothing', async () => {
    expect(await fake('cat <&3 >/dev/null; while [ "$1" != -- ]; do shift; done; shift; exec "$@"')).toMatchObject({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringMatching(/bwrap does not work/),
    });
  });

  test.skipIf(!hasBwrap())('nothing starts in a sandbox that lacks one of its walls', async () => {
    /** What is taken from the arguments of bwrap, and what the probe then misses. */
    const lacks: Record<string, readonly string[]> = {
      ownIpc: ['--unshare-ipc'],
      noNetwork: ['--unshare-net'],
      ownHostname: ['--unshare-uts', '--hostname sandbox'],
      seccomp: ['--seccomp 4'],
      ...(canChange && {
        noCapabilities: ['--cap-drop ALL'],
        ownUsers: ['--unshare-user', '--unshare-user', '--disable-userns', '--uid 1000', '--gid 1000'],
      }),
    };
    const spelledOut = ['user', 'ipc', 'pid', 'net', 'uts', 'cgroup-try'].map((kind) => `--unshare-${kind}\\x00`);
    harness = await createSandboxHarness();
    const { reaper, root: tmpRoot, folder } = harness;
    const missed = Object.entries(lacks).map(async ([name, options]) => {
      const rewrite = [`s/--unshare-all\\x00/${spelledOut.join('')}/;`].concat(
        options.map((option) => `s/${option.replaceAll(' ', '\\x00')}\\x00//;`),
      );
      const bin = join(folder, name);
      mkdirSync(bin);
      writeFileSync(join(bin, 'bwrap'), bwrapWithOtherArguments(rewrite.join(' ')), { mode: 0o755 });
      const runner = createBwrapRunner({ reaper, tmpRoot, searchPath: () => bin });
      return [name, await runner.start(harness.launch(['-e', '0'])).catch(({ code, message }) => ({ code, message }))];
    });
    const refused = (name: string) => ({
      code: 'SANDBOX_UNAVAILABLE',
      message: expect.stringMatching(new RegExp(`these protections are missing inside: .*\\b${name}\\.$`)),
    });
    expect(Object.fromEntries(await Promise.all(missed))).toEqual(
      Object.fromEntries(Object.keys(lacks).map((name) => [name, refused(name)])),
    );
  });

  test('a confined process is not started by the plain runner, nor any other by this one', async () => {
    harness = await createSandboxHarness();
    const { confinement: _, ...unconfined } = harness.launch([]);
    await expect(harness.runner.start(unconfined)).rejects.toThrow(
      'The rules for the sandbox of this process are missing',
    );
  });
});
