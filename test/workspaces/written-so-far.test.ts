import { expect, test } from 'vitest';
import { isAmbitError } from '../../src/errors.ts';
import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import { createWrittenSoFar } from '../../src/workspaces/written-so-far.ts';

const limits = { sessionBytes: 100, sessionEntries: 3 };

async function codeOf(work: Promise<unknown>): Promise<string | undefined> {
  return work.then(
    () => undefined,
    (error: unknown) => (isAmbitError(error) ? error.code : String(error)),
  );
}

test('a session writes as many bytes as it may, and no more, whoever it asks', async () => {
  const store = openMemoryStore();
  const one = createWrittenSoFar(store.documents);
  (await one.hold('s-1', 60, limits)).written(1);
  expect(await codeOf(one.hold('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(one.hold('s-1', 40, limits))).toBeUndefined();
  expect(await codeOf(one.hold('s-2', 100, limits))).toBeUndefined();
  await one.close();

  const other = createWrittenSoFar(store.documents);
  expect(await codeOf(other.hold('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(other.hold('s-1', 40, limits))).toBeUndefined();
  await other.close();
  await store.close();
});

test('it makes as many files and folders as it may', async () => {
  const store = openMemoryStore();
  const written = createWrittenSoFar(store.documents);
  for (let made = 0; made < 3; made++) {
    (await written.hold('s-1', 0, limits)).written(1);
  }
  expect(await codeOf(written.hold('s-1', 0, limits))).toBe('WORKSPACE_FULL');
  await written.close();
  await store.close();
});

test('two processes add to one count', async () => {
  const store = openMemoryStore();
  const both = [createWrittenSoFar(store.documents), createWrittenSoFar(store.documents)];
  for (const each of both) {
    (await each.hold('s-1', 30, limits)).written(1);
  }
  await Promise.all(both.map((each) => each.close()));
  const after = createWrittenSoFar(store.documents);
  expect(await codeOf(after.hold('s-1', 41, limits))).toBe('WORKSPACE_FULL');
  expect(await codeOf(after.hold('s-1', 40, limits))).toBeUndefined();
  await after.forget('s-1');
  expect(await codeOf(after.hold('s-1', 100, limits))).toBeUndefined();
  await after.close();
  await store.close();
});

test('writes at the same time are no way round the bound', async () => {
  const store = openMemoryStore();
  const written = createWrittenSoFar(store.documents);
  const tried = await Promise.allSettled([1, 2, 3].map(() => written.hold('s-1', 50, limits)));
  expect(tried.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected']);
  const [one, other] = tried.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []));
  one?.written(1);
  expect(await codeOf(written.hold('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  other?.release();
  other?.release();
  (await written.hold('s-1', 50, limits)).written(1);
  expect(await codeOf(written.hold('s-1', 1, limits))).toBe('WORKSPACE_FULL');
  const few = await Promise.allSettled([1, 2, 3, 4].map(() => written.hold('s-2', 0, limits)));
  expect(few.filter(({ status }) => status === 'fulfilled')).toHaveLength(3);
  await written.close();
  await store.close();
});
