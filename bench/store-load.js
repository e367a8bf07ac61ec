// One session store under load, in a process of its own so that its memory can be told apart. Reads one job as JSON on
// stdin, prints one JSON line on stdout. A wrong answer ends it with exit 1.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createNewSession } from '../build/public/testing/store-suite/harness.js';
import { openMemoryStore, openRedisStore, openSqliteStore } from '../dist/stores/index.js';

const { kind, place, sizes, times, atOnce } = JSON.parse(readFileSync(0, 'utf8'));
const open = {
  memory: async () => openMemoryStore(),
  sqlite: () => openSqliteStore({ file: place }),
  redis: () => openRedisStore({ url: place }),
};

// As long as a real one, and made from its number, so that nobody has to remember a hundred thousand of them.
const idOf = (number) => createHash('sha256').update(String(number)).digest('hex').slice(0, 32);

function createNumberedSession(number) {
  return createNewSession({
    id: idOf(number),
    userId: `user-${number % 1000}`,
    workspaceId: `project-${number % 50}`,
    keyId: null,
    permissions: ['notes:read', 'notes:write'],
    metadata: { client: 'bench' },
    tokenDigests: ['0'.repeat(64)],
    ttlSeconds: 86_400,
    lifetimeSeconds: 604_800,
  });
}

// Keeps so many under way until all are done; rates are per second, `p50Us` is what one of them waits.
async function rateOf(work, ids, lanes) {
  const waits = new Float64Array(ids.length);
  let next = 0;
  const began = performance.now();
  await Promise.all(
    Array.from({ length: lanes }, async () => {
      while (next < ids.length) {
        const mine = next++;
        const sentAt = performance.now();
        await work(ids[mine]);
        waits[mine] = performance.now() - sentAt;
      }
    }),
  );
  const perSecond = (ids.length / (performance.now() - began)) * 1000;
  return { perSecond, p50Us: waits.sort()[Math.floor(ids.length / 2)] * 1000 };
}

const store = await open[kind]();
const limits = { session: { callsPerMinute: 1_000_000 } };

async function lookup(id) {
  if ((await store.get(id))?.id !== id) throw new Error(`${kind} does not find a session it was given`);
}

async function refresh(id) {
  const verdict = await store.admit({ id, holdMs: 60_000, limits });
  if (verdict.outcome !== 'admitted') throw new Error(`${kind} refuses a call: ${verdict.outcome}`);
  await store.release(id, verdict.lease, { bytes: 100 });
}

async function fill(from, to) {
  for (let first = from; first < to; first += 256) {
    const numbers = Array.from({ length: Math.min(256, to - first) }, (_, index) => first + index);
    const created = await Promise.all(numbers.map((number) => store.create(createNumberedSession(number))));
    if (created.some(({ outcome }) => outcome !== 'created')) throw new Error(`${kind} did not take a session`);
  }
}

async function measure(size) {
  // Spread over all of them, in no order a cache could guess.
  const ids = Array.from({ length: times }, (_, turn) => idOf((turn * 7919) % size));
  // Once before it counts: the first size would else pay for the compiler.
  for (const work of [lookup, refresh]) await rateOf(work, ids, atOnce);
  const figures = { size, lookup: await rateOf(lookup, ids, 1), refresh: await rateOf(refresh, ids, 1) };
  figures.lookups = await rateOf(lookup, ids, atOnce);
  figures.refreshes = await rateOf(refresh, ids, atOnce);
  globalThis.gc?.();
  return { ...figures, residentMb: process.memoryUsage.rss() / 2 ** 20 };
}

try {
  const figures = [];
  let filled = 0;
  for (const size of sizes) {
    await fill(filled, size);
    filled = size;
    figures.push(await measure(size));
  }
  console.log(JSON.stringify(figures));
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await store.close();
}
