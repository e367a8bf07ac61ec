// node bench/resolution.js: how long it takes to find the session that a call names, among ten thousand. Needs a build.
import { createHash } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { createNewSession } from '../build/public/testing/store-suite/harness.js';
import { createSessionReach } from '../build/sessions/tools/reach.js';
import { openSqliteStore } from '../dist/stores/index.js';

const limitMs = 10;
const goalMs = 0.1;
// As many as a user may have by default.
const perUser = 200;

const idOf = (number) => createHash('sha256').update(String(number)).digest('hex').slice(0, 32);
const nameOf = (number) => `task#${number}`;
const userOf = (number) => `user-${Math.floor(number / perUser)}`;

// The sessions are in SQLite, as by default, and are asked for in no order a cache could guess.
export async function measureResolution({ sessions = 10_000, rounds = 2000 } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'ambit-bench-resolution-'));
  const store = await openSqliteStore({ file: join(folder, 'sessions.db') });
  try {
    for (let from = 0; from < sessions; from += 1000) {
      const numbers = Array.from({ length: Math.min(1000, sessions - from) }, (_, i) => from + i);
      await Promise.all(numbers.map((number) => store.create(createNumberedSession(number))));
    }
    const reach = createSessionReach(store);
    const ways = { id: idOf, name: nameOf, prefix: (number) => idOf(number).slice(0, 12) };
    const figures = [];
    for (const [way, referenceTo] of Object.entries(ways)) {
      figures.push([way, await measureWay(reach, referenceTo, { sessions, rounds })]);
    }
    return { sessions, rounds, limitMs, goalMs, ...Object.fromEntries(figures) };
  } finally {
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function createNumberedSession(number) {
  return createNewSession({ id: idOf(number), name: nameOf(number), userId: userOf(number), ttlSeconds: 86_400 });
}

async function measureWay(reach, referenceTo, { sessions, rounds }) {
  const times = [];
  for (let round = 0; round < rounds; round++) {
    const number = (round * 7919) % sessions;
    const principal = { kind: 'user', userId: userOf(number), via: 'key', ceiling: unlimited };
    const caller = { session: { id: 'the-session-of-the-call' }, principal };
    const began = performance.now();
    const { id } = await reach.find(referenceTo(number), caller);
    times.push(performance.now() - began);
    if (id !== idOf(number)) throw new Error('another session was found');
  }
  const sorted = times.toSorted((a, b) => a - b);
  return { medianMs: sorted[Math.floor(rounds / 2)], p99Ms: sorted[Math.floor(rounds * 0.99)] };
}

const unlimited = { trustLevel: 'direct', workspaces: null, scopes: null };

export function resolutionLine({ sessions, id, name, prefix, goalMs: goal, limitMs: limit }) {
  const write = ({ medianMs, p99Ms }) => `${medianMs.toFixed(3)} ms (p99 ${p99Ms.toFixed(3)})`;
  const worst = Math.max(...[id, name, prefix].map(({ medianMs }) => medianMs));
  const verdict = worst < goal ? 'reached' : 'not reached';
  return `A session among ${sessions}: by id ${write(id)}, by name ${write(name)}, by the start of its id ${write(prefix)}; limit ${limit} ms, goal < ${goal} ms: ${verdict}`;
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) console.log(resolutionLine(await measureResolution()));
