import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openSqliteStore } from '../../src/stores/sqlite/sqlite-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import { counts } from '../proof.ts';

const writer = join(import.meta.dirname, 'sqlite-writer.js');
const rounds = counts(6, 200);
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'ambit-crash-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Acknowledged {
  readonly id: string;
  readonly did: string;
}

/** Kills a writer in the midst of its work, after it has said so many things. */
async function killed(child: ChildProcess, after: number): Promise<Acknowledged[]> {
  let said = '';
  let lines = 0;
  child.stdout?.on('data', (chunk: Buffer) => {
    said += chunk.toString();
    lines += chunk.toString().split('\n').length - 1;
    if (lines >= after) child.kill('SIGKILL');
  });
  await once(child, 'close');
  const whole = said.slice(0, said.lastIndexOf('\n')).split('\n');
  return whole.map((line) => JSON.parse(line) as Acknowledged);
}

async function check(store: SessionStore, acknowledged: readonly Acknowledged[]): Promise<void> {
  const done = new Map<string, Set<string>>();
  for (const { id, did } of acknowledged) done.set(id, (done.get(id) ?? new Set()).add(did));
  for (const [id, did] of done) {
    const record = await store.get(id);
    if (did.has('end')) {
      expect(record).toBeUndefined();
      expect((await store.remains(id))?.reason).toBe('ended');
      continue;
    }
    // The end may have been written and not yet said.
    if (record === undefined) {
      expect((await store.remains(id))?.reason).toBe('ended');
      continue;
    }
    if (did.has('state')) expect((await store.state.get(id, 'k'))?.value).toBe(record.metadata['number']);
    if (did.has('mark')) expect(await store.marks.get(id, 'm')).toBe(String(record.metadata['number']));
    if (did.has('admit')) expect((await store.usage(id))?.calls).toBe(1);
    if (did.has('update')) expect(record).toMatchObject({ version: 2, permissions: ['a'] });
    else expect(record.permissions).toEqual(record.version === 1 ? ['a', 'b'] : ['a']);
  }
}

test(`L6, L16: what was acknowledged is there after kill -9, with two writers on one file, ${rounds} times`, async () => {
  const file = join(folder, 'sessions.db');
  for (let round = 0; round < rounds; round++) {
    const writers = ['one', 'two'].map((name) =>
      spawn(process.execPath, [writer, file, `${name}-${round}`], { stdio: ['ignore', 'pipe', 'inherit'] }),
    );
    const said = await Promise.all(writers.map((child, index) => killed(child, 5 + ((round * 37 + index * 11) % 150))));
    const store = await openSqliteStore({ file });
    try {
      for (const acknowledged of said) {
        expect(acknowledged.length).toBeGreaterThan(4);
        await check(store, acknowledged);
      }
    } finally {
      await store.close();
    }
  }
});
