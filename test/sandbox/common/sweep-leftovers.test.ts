import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTmpRoot, sweepLeftovers } from '../../../src/sandbox/common/sweep-leftovers.ts';
import { isAlive, killTagged } from '../tagged-processes.ts';

const linux = process.platform === 'linux';
let base: string;
let tmpParent: string;

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), 'ambit-leftovers-'));
  tmpParent = join(base, 'tmp');
});
afterEach(() => {
  if (linux) killTagged(base);
  rmSync(base, { recursive: true, force: true });
});

/** A pid that is no longer anybody's, with the start time it had. */
async function deadOwner(): Promise<string> {
  const child = spawn('true');
  await once(child, 'exit');
  return `${child.pid} 12345\n`;
}

function abandon(name: string, owner: string | undefined): string {
  const root = join(tmpParent, name);
  mkdirSync(join(root, 'p1'), { recursive: true });
  if (owner !== undefined) writeFileSync(join(root, 'owner'), owner);
  return root;
}

async function startIn(tmpDir: string): Promise<ChildProcess> {
  const child = spawn('sleep', ['1000'], {
    detached: true,
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], TMPDIR: tmpDir },
  });
  await once(child, 'spawn');
  return child;
}

describe('createTmpRoot', () => {
  it('makes folders for nobody else, and says whose they are', async () => {
    const [one, two] = await Promise.all([createTmpRoot(tmpParent), createTmpRoot(tmpParent)]);
    expect(one).not.toBe(two);
    for (const folder of [tmpParent, one, two]) expect(statSync(folder).mode & 0o777).toBe(0o700);
    const start = linux ? readFileSync('/proc/self/stat', 'latin1').split(') ').pop()?.split(' ')[19] : '0';
    expect(readFileSync(join(one, 'owner'), 'utf8')).toBe(`${process.pid} ${start}\n`);
  });

  it('closes a parent folder that was open to others', async () => {
    mkdirSync(tmpParent);
    chmodSync(tmpParent, 0o777);
    await createTmpRoot(tmpParent);
    expect(statSync(tmpParent).mode & 0o777).toBe(0o700);
  });

  it('refuses a link in place of the parent folder', async () => {
    const elsewhere = join(base, 'elsewhere');
    mkdirSync(elsewhere);
    symlinkSync(elsewhere, tmpParent);
    await expect(createTmpRoot(tmpParent)).rejects.toThrow(/must belong to the user/);
    expect(readdirSync(elsewhere)).toEqual([]);
  });
});

describe('sweepLeftovers', () => {
  it('has nothing to do where there is no folder', async () => {
    expect(await sweepLeftovers(tmpParent)).toEqual({ removed: [], killed: 0 });
  });

  it('leaves instances alone whose owner lives, and files and links beside them', async () => {
    const root = await createTmpRoot(tmpParent);
    const elsewhere = join(base, 'elsewhere');
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, 'owner'), await deadOwner());
    symlinkSync(elsewhere, join(tmpParent, 'link'));
    writeFileSync(join(tmpParent, 'file'), '');
    expect((await sweepLeftovers(tmpParent)).removed).toEqual([]);
    expect(readdirSync(tmpParent).sort()).toEqual(['file', basename(root), 'link']);
    expect(existsSync(join(elsewhere, 'owner'))).toBe(true);
  });

  it('removes the folder of a dead owner without following links in it', async () => {
    const root = abandon('dead', await deadOwner());
    const precious = join(base, 'precious');
    mkdirSync(precious);
    writeFileSync(join(precious, 'file'), 'x');
    symlinkSync(precious, join(root, 'p1', 'link'));
    expect((await sweepLeftovers(tmpParent)).removed).toEqual([root]);
    expect(existsSync(root)).toBe(false);
    expect(existsSync(join(precious, 'file'))).toBe(true);
  });

  it('gives a folder without an owner the time to get one', async () => {
    const root = abandon('young', undefined);
    expect((await sweepLeftovers(tmpParent)).removed).toEqual([]);
    const old = Date.now() / 1000 - 120;
    utimesSync(root, old, old);
    expect((await sweepLeftovers(tmpParent)).removed).toEqual([root]);
  });

  it.skipIf(!linux)('knows that a pid with another start time is not the owner', async () => {
    const root = abandon('reused', `${process.pid} 1\n`);
    expect((await sweepLeftovers(tmpParent)).removed).toEqual([root]);
  });

  it.skipIf(!linux)('kills what still runs in the folder of a dead owner, and nothing else', async () => {
    const root = abandon('dead', await deadOwner());
    const live = await createTmpRoot(tmpParent);
    const [left, inLive, lookalike] = await Promise.all([
      startIn(join(root, 'p1')),
      startIn(join(live, 'p1')),
      startIn(`${root}-not/p1`),
    ]);
    const gone = once(left, 'exit');
    expect(await sweepLeftovers(tmpParent)).toEqual({ removed: [root], killed: 1 });
    expect(await gone).toEqual([null, 'SIGKILL']);
    expect([inLive, lookalike].map((child) => isAlive(child.pid ?? 0))).toEqual([true, true]);
  });
});
