import {
  chmodSync,
  chownSync,
  existsSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { loadConfig } from '../../../src/config/load/load.ts';
import { ambitInProcess } from '../../cli/in-process.ts';

const somebodyElse = 65_534;
const isRoot = process.getuid?.() === 0;

let base: string;
let file: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ambit-writable-'));
  file = join(base, 'a', 'b', 'ambit.yaml');
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, 'version: 1\n');
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

const load = (path = file) => loadConfig({ file: path });

describe('S2: a configuration that another user can change is refused', () => {
  test.each<[string, () => string, RegExp]>([
    ['a file that all may write', () => chmodded(file, 0o666), /other users can write to .*ambit\.yaml \(mode 0666\)/],
    [
      'a folder that all may write to',
      () => chmodded(join(base, 'a', 'b'), 0o777),
      /other users can write to .*\/a\/b \(/,
    ],
    ['a folder further up', () => chmodded(join(base, 'a'), 0o777), /other users can write to .*\/a \(/],
    [
      'a folder on the way of a link',
      () => {
        chmodded(join(base, 'a'), 0o777);
        symlinkSync(file, join(base, 'link'));
        return join(base, 'link');
      },
      /other users can write to .*\/a \(/,
    ],
    [
      'a folder that a link lies in',
      () => {
        mkdirSync(join(base, 'open'));
        symlinkSync(file, join(base, 'open', 'link'));
        chmodded(join(base, 'open'), 0o777);
        return join(base, 'open', 'link');
      },
      /other users can write to .*\/open \(/,
    ],
  ])('%s', async (_what, make, why) => {
    const path = make();
    await expect(load(path)).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      message: expect.stringMatching(why),
      hint: expect.stringContaining('chmod go-w'),
    });
  });

  test.runIf(isRoot).each<[string, () => void]>([
    ['a file of somebody else', () => chownSync(file, somebodyElse, somebodyElse)],
    ['a folder of somebody else', () => chownSync(join(base, 'a'), somebodyElse, somebodyElse)],
    [
      'a link of somebody else in a folder that all share',
      () => {
        rmSync(file);
        chmodSync(dirname(file), 0o1777);
        writeFileSync(join(base, 'other.yaml'), 'version: 1\n');
        symlinkSync(join(base, 'other.yaml'), file);
        lchownSync(file, somebodyElse, somebodyElse);
      },
    ],
    [
      'a group that is not private',
      () => {
        chownSync(file, 0, somebodyElse);
        chmodSync(file, 0o664);
      },
    ],
  ])('%s', async (_what, make) => {
    make();
    await expect(load()).rejects.toMatchObject({
      message: expect.stringMatching(/belongs to another user|other users can write/),
    });
  });

  test.runIf(isRoot)('but not the file of whoever used sudo', async () => {
    chownSync(file, somebodyElse, somebodyElse);
    vi.stubEnv('SUDO_UID', String(somebodyElse));
    onTestFinished(() => void vi.unstubAllEnvs());
    await expect(load()).resolves.toBeDefined();
  });

  test('also by a command that would add to it', async () => {
    chmodSync(file, 0o666);
    const servers = join(base, 'servers.json');
    writeFileSync(servers, JSON.stringify({ mcpServers: { one: { command: 'node' } } }));
    const places = ['--config', file, '--data-dir', join(base, 'data')];
    for (const args of [
      [servers, '--yes'],
      ['--undo', '--yes'],
    ]) {
      expect(await ambitInProcess(['import', ...args, ...places])).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('other users can write to'),
      });
    }
    expect(existsSync(join(base, 'data'))).toBe(false);
  });

  test('but not in a sticky folder, where nobody can replace it', async () => {
    chmodSync(dirname(file), 0o1777);
    await expect(load()).resolves.toBeDefined();
  });

  test.runIf(isRoot || process.getuid?.() === process.getgid?.())('nor for the private group of the user', async () => {
    for (const path of [file, dirname(file)]) {
      chownSync(path, process.getuid?.() ?? 0, process.getuid?.() ?? 0);
      chmodSync(path, 0o775);
    }
    await expect(load()).resolves.toBeDefined();
  });
});

function chmodded(path: string, mode: number): string {
  chmodSync(path, mode);
  return file;
}
