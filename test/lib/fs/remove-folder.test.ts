import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { removeFolder } from '../../../src/lib/fs/remove-folder.ts';

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ambit-remove-'));
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

describe('removeFolder', () => {
  it('removes write-protected files, and keeps the targets of links', async () => {
    const precious = join(base, 'precious');
    mkdirSync(precious);
    writeFileSync(join(precious, 'file'), 'x');
    const folder = join(base, 'folder');
    mkdirSync(join(folder, 'a', 'b'), { recursive: true });
    writeFileSync(join(folder, 'a', 'b', 'file'), 'x');
    symlinkSync(precious, join(folder, 'a', 'link'));
    for (const path of ['a/b', 'a', '']) chmodSync(join(folder, path), 0o500);
    chmodSync(precious, 0o500);

    expect(await removeFolder(folder)).toBe(true);
    expect(existsSync(folder)).toBe(false);
    expect(readFileSync(join(precious, 'file'), 'utf8')).toBe('x');
  });

  it('accepts a missing folder, and removes a link instead of its target', async () => {
    const target = join(base, 'target');
    mkdirSync(target);
    symlinkSync(target, join(base, 'link'));
    expect(await removeFolder(join(base, 'missing'))).toBe(true);
    expect(await removeFolder(join(base, 'link'))).toBe(true);
    expect(existsSync(target)).toBe(true);
  });
});
