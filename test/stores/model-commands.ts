import fc from 'fast-check';
import { expect } from 'vitest';
import type { Admission, Limits, Spent } from '../../src/stores/admission.ts';
import type { NewSession } from '../../src/stores/record.ts';
import type { SessionStore } from '../../src/stores/store.ts';
import type { Model } from './model.ts';

export interface Real {
  readonly store: SessionStore;
  readonly leases: { id: string; lease: string; limits: Admission['limits'] }[];
  advance(ms: number): void;
}

type Command = fc.AsyncCommand<Model, Real>;
type Made<T> = T extends fc.Arbitrary<infer Value> ? Value : never;
type Run = (model: Model, real: Real) => Promise<void>;

function command(name: string, run: Run): Command {
  return { check: () => true, run, toString: () => name };
}

/** A command of what it says and does, made from random values. */
function commands<T>(
  values: fc.Arbitrary<T>,
  name: string,
  run: (values: T, ...sides: Parameters<Run>) => Promise<void>,
) {
  return values.map((given) => command(`${name} ${JSON.stringify(given)}`, (model, real) => run(given, model, real)));
}

const ids: fc.Arbitrary<string> = fc.constantFrom('aaaa-1', 'aaaa-2', 'bbbb-1', 'bbbb-2');
const users = fc.constantFrom('ada', 'eve');
const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined });
const given = <T extends object>(values: T) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]: Exclude<T[K], undefined>;
  };

const limits: fc.Arbitrary<Limits> = fc
  .record({
    callsPerMinute: maybe(fc.constantFrom(7, 60)),
    concurrentCalls: maybe(fc.constantFrom(1, 2, 3)),
    totalCalls: maybe(fc.constantFrom(2, 5)),
    totalBytes: maybe(fc.constantFrom(10, 20)),
    burst: maybe(fc.constantFrom(1, 3)),
  })
  .map(({ burst, ...rest }) => given({ ...rest, burst: rest.callsPerMinute && burst }));

const sessions: fc.Arbitrary<NewSession> = fc.record({
  id: ids,
  name: fc.constantFrom(null, 'main', 'side'),
  userId: users,
  agentId: fc.constant(null),
  workspaceId: fc.constantFrom(null, 'garden'),
  parentId: fc.constant(null),
  keyId: fc.constant(null),
  task: fc.constant(null),
  quotas: fc.constant(null),
  trustLevel: fc.constantFrom('direct', 'sandboxed'),
  permissions: fc.constantFrom([], ['a']),
  servers: fc.constant(null),
  metadata: fc.constantFrom({}, { a: [] }),
  origin: fc.constant(null),
  tokenDigests: fc.constant(['d']),
  ttlSeconds: fc.constantFrom(1, 5, 20),
  lifetimeSeconds: fc.constantFrom(3, 30),
});

const creating = commands(
  fc.tuple(sessions, maybe(fc.constantFrom(1, 2))),
  'create',
  async ([session, perUser], model, { store }) => {
    expect(await store.create(session, given({ perUser }))).toEqual(model.create(session, perUser));
  },
);

/** The model does not know the names of leases. */
async function readUsage(store: SessionStore, id: string) {
  const use = await store.usage(id);
  return use && { ...use, leases: use.leases.map(({ calls, places }) => `${calls} ${places}`).sort() };
}

const reading = commands(ids, 'read', async (id, model, { store }) => {
  expect(await store.get(id)).toEqual(model.get(id));
  expect(await store.remains(id)).toEqual(model.remains(id));
  expect(await readUsage(store, id)).toEqual(model.usage(id));
});

const changes = fc.oneof(
  fc.record({ permissions: fc.constantFrom<string[][]>([], ['b']) }),
  fc.constant({ ttlSeconds: 1 }),
  fc.record({ endsIn: fc.constantFrom(0, 1000, 2000) }),
);

const updating = commands(
  fc.tuple(ids, fc.constantFrom(0, 0, 0, 1), changes),
  'update',
  async ([id, ahead, wanted], model, { store }) => {
    const now = model.get(id);
    const change = 'endsIn' in wanted ? { endsAt: Math.min(model.now() + wanted.endsIn, now?.endsAt ?? 0) } : wanted;
    const version = (now?.version ?? 1) + ahead;
    expect(await store.update(id, version, change)).toEqual(model.update(id, version, change));
  },
);

const ending = commands(ids, 'end', async (id, model, { store }) => {
  expect(await store.end(id)).toEqual(model.end(id));
});

const requests = fc.tuple(
  ids,
  fc.record({
    calls: maybe(fc.constantFrom(0, 1, 2)),
    bytes: maybe(fc.constantFrom(0, 4, 12)),
    holdMs: maybe(fc.constantFrom(500, 8000)),
    places: maybe(fc.constantFrom(0, 1, 2)),
    version: maybe(fc.constantFrom(1, 2)),
  }),
  fc.record({ session: maybe(limits), user: maybe(limits), workspace: maybe(limits) }),
);

async function admit([id, { places, ...cost }, bounds]: Made<typeof requests>, model: Model, real: Real) {
  const held = cost.holdMs === undefined ? {} : given({ places });
  const request = { id, ...given(cost), ...held, limits: given(bounds) } as Admission;
  const answer = await real.store.admit(request);
  const expected = model.admit(request);
  if (answer.outcome !== 'admitted') return expect(answer).toEqual(expected);
  const { lease, ...rest } = answer;
  expect(rest).toEqual(expected);
  if (lease !== null) real.leases.push({ id, lease, limits: request.limits });
}

const holds = fc.tuple(
  fc.nat(),
  fc.constantFrom('renew', 'release'),
  fc.record({
    bytes: maybe(fc.constantFrom(0, 5)),
    unusedCalls: maybe(fc.constantFrom(0, 1, 3)),
    agoMs: maybe(fc.constantFrom(0, 400, 6000)),
  }),
  maybe(fc.constantFrom(0, 1, 2)),
  fc.constantFrom('all', 'all', 'none'),
);

async function hold([pick, verb, known, places, named]: Made<typeof holds>, model: Model, { store, leases }: Real) {
  const index = pick % Math.max(leases.length, 1);
  const [held, place] = [leases[index], model.leases[index]];
  if (held === undefined || place === undefined) return;
  const spent: Spent = { ...given(known), ...(named === 'all' ? given({ limits: held.limits }) : {}) };
  if (verb === 'renew') {
    const kept = { ...spent, ...given({ places }) };
    expect(await store.renew(held.id, held.lease, 4000, kept)).toBe(model.renew(place, 4000, kept));
  } else {
    await store.release(held.id, held.lease, spent);
    model.release(place, spent);
  }
  expect(await store.get(held.id)).toEqual(model.get(held.id));
  expect(await readUsage(store, held.id)).toEqual(model.usage(held.id));
}

const admitting = commands(requests, 'admit', admit);
const holding = commands(holds, 'hold', hold);

/** A place in a session that lives, settled while it is held: by chance alone that is rare. */
const granting = commands(
  fc.tuple(fc.nat(), requests, fc.constantFrom(1, 499, 1001), holds),
  'grant',
  async ([pick, [id, cost, bounds], ms, [, ...how]], model, real) => {
    const live = model.list(undefined);
    const before = real.leases.length;
    const holdMs = cost.holdMs ?? 8000;
    await admit([live[pick % Math.max(live.length, 1)]?.id ?? id, { ...cost, holdMs }, bounds], model, real);
    if (real.leases.length === before) return;
    model.advance(ms);
    real.advance(ms);
    await hold([before, ...how], model, real);
  },
);

const keys = fc.constantFrom('k', 'l');

const writing = commands(
  fc.tuple(ids, keys, fc.jsonValue({ maxDepth: 1 }), maybe(fc.constantFrom(0, 1, 2)), maybe(fc.constantFrom(1, 1500))),
  'state',
  async ([id, key, random, expectedVersion, ttlMs], model, { store }) => {
    const value = JSON.parse(JSON.stringify(random));
    const written = await store.state.set(id, key, value, given({ expectedVersion, ttlMs }));
    expect(written).toEqual(model.setState(id, key, value, expectedVersion, ttlMs));
    const entries = await Promise.all((await store.state.list(id)).keys.map((entry) => store.state.get(id, entry.key)));
    const kept = model.state(id).map(({ until, ...entry }) => ({ ...entry, expiresAt: until }));
    expect(entries.map((entry) => ({ ...entry, bytes: undefined }))).toEqual(
      kept.map((e) => ({ ...e, bytes: undefined })),
    );
  },
);

const erasing = commands(fc.tuple(ids, keys), 'erase', async ([id, key], model, { store }) => {
  expect(await store.state.delete(id, key)).toEqual(model.deleteState(id, key));
});

const marking = commands(
  fc.tuple(ids, keys, fc.constantFrom('', 'v')),
  'mark',
  async ([id, key, value], model, { store }) => {
    expect(await store.marks.put(id, key, value)).toEqual(model.putMark(id, key, value));
  },
);

const filing = commands(
  fc.tuple(
    fc.constantFrom('things', 'others'),
    keys,
    fc.constantFrom('put', 'put', 'delete'),
    fc.constantFrom('', 'text', 'ü'),
    maybe(fc.constantFrom(0, 1, 2)),
  ),
  'file',
  async ([collection, key, verb, text, expectedVersion], model, { store: { documents } }) => {
    const at = given({ expectedVersion });
    if (verb === 'put') {
      const written = await documents.put(collection, key, text, at);
      expect(written).toEqual(model.putDocument(collection, key, text, expectedVersion));
    } else {
      expect(await documents.delete(collection, key, at)).toEqual(
        model.deleteDocument(collection, key, expectedVersion),
      );
    }
    expect(await documents.get(collection, key)).toEqual(model.document(collection, key));
    expect((await documents.list(collection)).documents).toEqual(model.documents(collection));
  },
);

const listing = commands(
  fc.tuple(maybe(users), fc.constantFrom(1, 100)),
  'list',
  async ([userId, limit], model, { store }) => {
    const found = [];
    for (let after: string | null = ''; after !== null; ) {
      const page = await store.list(given({ userId }), { limit, ...(after === '' ? {} : { after }) });
      found.push(...page.sessions);
      after = page.next;
    }
    expect(found).toEqual(model.list(userId));
    expect(await store.find('main', { userId: 'ada' })).toEqual(model.named('main', 'ada'));
  },
);

const sweeping = fc.constant(command('sweep', async (_model, { store }) => void (await store.sweep())));

const waiting = commands(
  fc.constantFrom(1, 499, 500, 1000, 1001, 4999, 5000, 20_000, 3_600_000, 40_000_000),
  'wait',
  async (ms, model, real) => {
    model.advance(ms);
    real.advance(ms);
  },
);

export const storeCommands = [
  creating,
  creating,
  reading,
  updating,
  ending,
  admitting,
  admitting,
  holding,
  granting,
  writing,
  erasing,
  marking,
  filing,
  listing,
  sweeping,
  waiting,
  waiting,
];
