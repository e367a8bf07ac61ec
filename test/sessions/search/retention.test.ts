import { createHash } from 'node:crypto';
import { expect, test } from 'vitest';
import { readAllDocuments } from '../../../src/stores/documents.ts';
import type { NewSession } from '../../../src/stores/record.ts';
import { type IndexTest, openAnotherIndex, openIndexInMemory } from './open-index.ts';

const hash = (text: string) => createHash('sha256').update(text).digest('hex');
const dayMs = 86_400_000;
/** Ids of sessions that have old ones deleted when they are opened, and of those that have not. */
const ids = Array.from({ length: 200 }, (_, number) => `session-${number}`);
const isPruning = (id: string) => Number.parseInt(hash(id).slice(0, 8), 16) % 20 === 0;
const [pruning = '', pruningLater = ''] = ids.filter(isPruning);
const others = ids.filter((id) => !isPruning(id));

const readIds = async ({ store }: IndexTest, userId = 'ada') =>
  (await readAllDocuments(store.documents, `sessions-${hash(userId).slice(0, 40)}`))
    .map(({ key }) => key.slice(key.indexOf('/') + 1))
    .sort();

/** Opens sessions in a process of their own, which ends them if it is told to. */
async function openSessions(base: IndexTest, drafts: readonly Partial<NewSession>[], isEnded = false): Promise<void> {
  const { index, open, store } = openAnotherIndex(base);
  for (const draft of drafts) {
    const session = await open(draft);
    if (!isEnded) continue;
    await store.end(session.id);
    index.ended(session, 'ended');
  }
  await index.close();
}

test('P13: ended sessions are kept for 30 days, and then deleted when another one is opened', async () => {
  const base = openIndexInMemory();
  const [noted = '', unnoted = '', alive = '', elsewhere = ''] = others;
  const life = { lifetimeSeconds: 31_536_000, ttlSeconds: 31_536_000 };
  await openSessions(base, [{ id: noted }, { id: elsewhere, workspaceId: 'meadow' }], true);
  await openSessions(base, [{ id: unnoted }, { id: alive, ...life }]);
  base.advance(29 * dayMs);
  await openSessions(base, [{ id: pruning, ...life }]);
  expect(await readIds(base)).toEqual([noted, unnoted, alive, elsewhere, pruning].sort());
  base.advance(1.5 * dayMs);
  // Nobody finds them any more, deleted or not.
  expect(await base.findIds()).toEqual([pruning, alive]);
  await openSessions(base, [{ id: pruningLater, ...life }]);
  expect(await readIds(base)).toEqual([alive, elsewhere, pruning, pruningLater].sort());
});

test('P13: of one workspace 1000 sessions are kept; those that ended first go, and no live ones', async () => {
  const base = openIndexInMemory();
  const drafts = Array.from({ length: 1010 }, (_, number) => `many-${String(number).padStart(4, '0')}`)
    .filter((id) => !isPruning(id))
    .map((id) => ({ id }));
  const [first = { id: '' }, ...rest] = drafts;
  await openSessions(base, [first]);
  for (const part of [rest.slice(0, 100), rest.slice(100)]) {
    await openSessions(base, part, true);
    base.advance(1000);
  }
  const more = others.slice(0, 1002 - drafts.length).map((id) => ({ id }));
  await openSessions(base, more, true);
  base.advance(1000);
  await openSessions(base, [{ id: pruning }]);
  const kept = await readIds(base);
  expect(kept).toHaveLength(1000);
  expect(kept).toContain(first.id);
  expect(rest.slice(0, 100).filter(({ id }) => !kept.includes(id))).toHaveLength(3);
});

test('P13: a full collection loses the oldest sessions of its user, instead of refusing new ones', async () => {
  const base = openIndexInMemory({ documentLimits: { documents: 20 } });
  const drafts = others.slice(0, 20).map((id, number) => ({ id, workspaceId: `meadow-${number}` }));
  const next = others[20] ?? '';
  await openSessions(base, drafts.slice(0, 1));
  for (const draft of drafts.slice(1)) {
    await openSessions(base, [draft], true);
    base.advance(1000);
  }
  await openSessions(base, [{ id: next }]);
  const expected = [...drafts.map(({ id }) => id), next].filter((id) => id !== drafts[1]?.id);
  expect(await readIds(base)).toEqual(expected.sort());
});

test('P13: when all sessions of a full collection live, further ones are found without it', async () => {
  const base = openIndexInMemory({ documentLimits: { documents: 3 } });
  const [a = '', b = '', c = '', d = '', e = ''] = others;
  await openSessions(base, [{ id: a }, { id: b }, { id: c }]);
  await openSessions(base, [
    { id: d, task: 'Sow beans' },
    { id: e, task: 'Sow peas' },
  ]);
  expect(await readIds(base)).toEqual([a, b, c].sort());
  expect((await base.findIds({ text: 'sow' })).sort()).toEqual([d, e].sort());
});
