import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { AmbitError } from '../../../../src/errors.ts';
import { filesProgram } from '../../../../src/package-paths.ts';
import type { WorkspaceBackend } from '../../../../src/workspaces/backends/backend.ts';
import { hasPodman } from '../../../needs/podman.ts';
import { counts, proof } from '../../../proof.ts';
import { createVolumeHarness, podman, type VolumeHarness } from './volume-harness.ts';

let harness: VolumeHarness;

const readContent = async (files: WorkspaceBackend, path: string): Promise<string> => {
  const file = await files.open(path);
  try {
    return Buffer.from(await file.read(0, file.facts.bytes)).toString();
  } finally {
    await file.close();
  }
};
/** To ask podman costs more than most of what is awaited takes: it is asked once in a while. */
async function waitUntilNot(isThere: () => boolean): Promise<void> {
  while (isThere()) await delay(200);
}
const waitUntilGone = (instance?: string) => waitUntilNot(() => harness.containers(instance).length > 0);
const readProcessId = (name: string) => Number(podman('container', 'inspect', '--format', '{{.State.Pid}}', name));

/** Finds the process of `podman start --attach`. */
function findClient(name: string): number {
  const pid = readdirSync('/proc').find((entry) => {
    try {
      const words = readFileSync(`/proc/${entry}/cmdline`, 'latin1').split('\0');
      return words.includes('start') && words.includes('--attach') && words.includes(name);
    } catch {
      return false;
    }
  });
  return Number(pid);
}

describe.skipIf(!hasPodman())('files in a container', () => {
  beforeAll(async () => {
    harness = await createVolumeHarness();
  });
  afterEach(() => harness.closeAll());
  afterAll(() => harness.stop());

  test('are kept by one container, started on the first call and ended by close; the volume stays', async () => {
    const volume = harness.freshVolume();
    const files = harness.open(volume);
    expect(harness.containers()).toEqual([]);
    const names = Array.from({ length: 20 }, (_, index) => `${index}.txt`);
    await Promise.all(names.map((name) => files.write(name, Buffer.from(name))));
    const [container = '', ...others] = harness.containers();
    expect(others).toEqual([]);

    const mounts = JSON.parse(podman('container', 'inspect', '--format', '{{json .Mounts}}', container)) as {
      Name?: string;
      RW: boolean;
      Destination: string;
    }[];
    expect(mounts.filter(({ RW }) => RW)).toMatchObject([{ Name: volume, Destination: '/workspace' }]);
    // The program, its Node and the system; nothing of the data directory or of people's folders.
    const shown = mounts.map(({ Destination }) => Destination).filter((path) => path.startsWith(harness.folder));
    expect(shown).toEqual([]);

    await files.close();
    await waitUntilGone();
    await expect(files.stat('.')).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
    const again = harness.open(volume);
    expect(await Promise.all(names.map((name) => readContent(again, name)))).toEqual(names);
    await again.close();
    await waitUntilGone();
  });

  test('never lead out of the volume, whatever links it holds', async () => {
    const volume = harness.freshVolume();
    const files = harness.open(volume);
    await files.write('inside/real.txt', Buffer.from('mine'));
    const { placeOf } = harness;
    const links: [string, string][] = [
      ['root', '/'],
      ['passwd', '/etc/passwd'],
      ['environ', '/proc/self/environ'],
      ['program', '/run/ambit/files.mjs'],
      ['up', '../etc/passwd'],
      ['inside/up', '../../etc'],
      ['fd', '/proc/self/fd/0'],
      ['chain', 'root/etc/passwd'],
      ['own', '/workspace/inside/real.txt'],
    ];
    for (const [name, target] of links) symlinkSync(target, join(placeOf(volume), name));
    symlinkSync('inside/real.txt', join(placeOf(volume), 'fine'));
    const paths = [
      ...links.map(([name]) => name),
      'root/etc/passwd',
      'inside/up/passwd',
      '../etc/passwd',
      '/etc/passwd',
    ];
    for (const path of paths) {
      const tries = [() => files.open(path), () => files.write(path, Buffer.from('x')), () => files.list(path)];
      for (const attempt of tries) {
        const refusal = (await attempt().catch((error: unknown) => error)) as AmbitError;
        expect(refusal, path).toMatchObject({ code: 'PATH_VIOLATION' });
      }
    }
    expect(await readContent(files, 'fine')).toBe('mine');
    expect(await readContent(files, 'inside/real.txt')).toBe('mine');
  });

  test('are whole when the container or its client is killed; pending calls fail, the next call starts it again', async () => {
    const files = harness.open(harness.freshVolume());
    const bytes = counts(1 << 18, 1 << 20);
    const content = (letter: string) => Buffer.alloc(bytes, letter);
    const names = Array.from({ length: 30 }, (_, index) => `${index}.bin`);
    let letters = names.map(() => 'a');
    await Promise.all(names.map((name) => files.write(name, content('a'))));
    for (const [letter, victimOf] of [['b', readProcessId] as const, ['c', findClient] as const]) {
      const [container = ''] = harness.containers();
      const victim = victimOf(container);
      expect(victim).toBeGreaterThan(1);
      const held = await files.open('0.bin');
      const writes = names.map((name) => files.write(name, content(letter)).then(() => 'done' as const));
      await Promise.race(writes);
      process.kill(victim, 'SIGKILL');
      const ends = await Promise.allSettled(writes);
      const told = ends.map((end) => (end.status === 'fulfilled' ? end.value : (end.reason as AmbitError).code));
      expect(told).toContain('done');
      for (const each of told) expect(['done', 'FILE_FAILED', 'WORKSPACE_UNAVAILABLE']).toContain(each);
      await expect(held.read(bytes / 2, 10)).rejects.toMatchObject({ code: 'WORKSPACE_UNAVAILABLE' });
      await held.close();

      const texts = await Promise.all(names.map((name) => readContent(files, name)));
      for (const [index, text] of texts.entries()) {
        const before = letters[index] as string;
        expect(told[index] === 'done' ? [letter] : [letter, before]).toContain(text[0]);
        expect(text === (text[0] as string).repeat(bytes)).toBe(true);
      }
      letters = texts.map((text) => text[0] as string);
      expect((await files.list('.')).entries.map(({ name }) => name).sort()).toEqual([...names].sort());
      await waitUntilNot(() => harness.containers().includes(container));
    }
    await files.close();
    await waitUntilGone();
  });

  test('stay when Ambit is killed, and no container keeps running', async () => {
    const volume = harness.freshVolume();
    const child = fork(join(import.meta.dirname, 'keeps-files-and-waits.js'), [harness.folder, volume, filesProgram]);
    const [{ tmpRoot }] = (await once(child, 'message')) as [{ tmpRoot: string }];
    expect(harness.containers(basename(tmpRoot))).toHaveLength(1);
    const left = once(child, 'exit');
    child.kill('SIGKILL');
    await left;
    await waitUntilGone(basename(tmpRoot));
    expect(readFileSync(join(harness.placeOf(volume), 'kept.txt'), 'utf8')).toBe('before the end');
  });

  test('are unavailable when the program gives invalid responses, and it is ended', async () => {
    const garbage = `process.stdout.write('Hello, this is not what you think it is.'); setInterval(() => {}, 1000)`;
    const programs = {
      ...(proof ? { garbage } : {}),
      // In `npm test` it slows down after some megabytes, to spare the processor.
      flood: `let n = 0; const more = () => process.stdout.write(Buffer.alloc(65536), () => (++n < ${counts(256, 1e9)} ? more() : setTimeout(more, 20))); more()`,
      nobody: `process.exit(3)`,
    };
    const outcomes = Object.entries(programs).map(async ([name, source]) => {
      const program = join(harness.folder, `${name}.mjs`);
      writeFileSync(program, source);
      const warned: string[] = [];
      const log = { info: () => {}, warn: (event: string) => warned.push(event) };
      const files = harness.openOtherwise(harness.freshVolume(), { program, log });
      const refusal = await files.stat('.').catch((error: unknown) => error);
      return [name, (refusal as AmbitError).code, warned.length];
    });
    expect(await Promise.all(outcomes)).toEqual(
      Object.keys(programs).map((name) => [name, 'WORKSPACE_UNAVAILABLE', 1]),
    );
    await waitUntilGone();
  });

  test('are unavailable without a container engine, with a hint', async () => {
    const files = harness.openOtherwise(harness.freshVolume(), {}, () => '');
    await expect(files.stat('.')).rejects.toMatchObject({
      code: 'WORKSPACE_UNAVAILABLE',
      message: expect.stringContaining('neither "podman" nor "docker"'),
      hint: expect.stringContaining('podman'),
    });
  });
});
