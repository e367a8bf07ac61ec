import { openMemoryStore } from '../../src/stores/memory/memory-store.ts';
import type { SessionStore } from '../../src/stores/store.ts';

/** A store that lies: made from a good one and the clock it runs by. */
export type Fault = (good: SessionStore, now: () => number) => Partial<SessionStore>;

/** Mistakes that real stores make. Each is small, and most tests do not notice it. */
export const faults: Readonly<Record<string, Fault>> = {
  'revives what was ended': (good) => {
    const ended = new Map<string, NonNullable<Awaited<ReturnType<SessionStore['get']>>>>();
    return {
      async end(id, reason) {
        const record = await good.get(id);
        if (record !== undefined) ended.set(id, record);
        return good.end(id, reason);
      },
      async update(id, version, change) {
        const record = ended.get(id);
        if (record === undefined) return good.update(id, version, change);
        return { outcome: 'updated', record: { ...record, ...change } };
      },
    };
  },
  'delivers a message again after it was acknowledged': (good) => ({
    inboxes: {
      ...good.inboxes,
      acknowledge: async (id, upTo) => (await good.inboxes.list(id)).filter(({ number }) => number <= upTo).length,
    },
  }),
  'takes messages without a limit': (good) => ({
    inboxes: { ...good.inboxes, send: (message, limits) => good.inboxes.send(message, { ...limits, messages: 1e6 }) },
  }),
  'lets the last write win': (good) => ({
    async update(id, version, change) {
      const now = await good.get(id);
      return good.update(id, now?.version ?? version, change);
    },
  }),
  'lets an expired session in once more': (good, now) => {
    const expiries = new Map<string, number>();
    return {
      async create(session, caps) {
        const created = await good.create(session, caps);
        if (created.outcome === 'created') expiries.set(session.id, created.record.expiresAt);
        return created;
      },
      async admit(request) {
        const answer = await good.admit(request);
        const expiresAt = expiries.get(request.id);
        if (answer.outcome !== 'expired' || expiresAt !== now()) return answer;
        return { outcome: 'admitted', version: 1, lastActiveAt: now(), expiresAt: now() + 1, lease: null };
      },
    };
  },
  'ignores the lifetime': (good) => ({
    create: (session, caps) => good.create({ ...session, lifetimeSeconds: session.lifetimeSeconds * 2 }, caps),
  }),
  'lists other users’ sessions': (good) => ({
    list: ({ userId: _, ...filter } = {}, page) => good.list(filter, page),
  }),
  'finds other users’ sessions by id': (good) => ({
    async find(reference, filter) {
      const found = await good.find(reference, filter);
      return found.length > 0 ? found : (await good.find(reference)).filter(({ id }) => id === reference);
    },
  }),
  'counts after looking, not together': (good) => ({
    async admit(request) {
      const { limits: _, ...free } = request;
      const use = await good.usage(request.id);
      await new Promise((resolve) => setImmediate(resolve));
      const most = request.limits?.session?.totalCalls;
      if (use !== undefined && most !== undefined && use.calls < most) return good.admit(free);
      return good.admit(request);
    },
  }),
  'charges the user for what it refuses': (good) => ({
    async admit(request) {
      const { session: _, ...others } = request.limits ?? {};
      const answer = await good.admit(request);
      if (answer.outcome === 'quota' && answer.scope === 'session') await good.admit({ ...request, limits: others });
      return answer;
    },
  }),
  'never gives a place back after a crash': (good) => ({
    admit: (request) => good.admit(request.holdMs === undefined ? request : { ...request, holdMs: 600_000 }),
  }),
  'counts a place that has run out': (good, now) => {
    const held = new Map<string, number>();
    return {
      async admit(request) {
        if (request.holdMs !== undefined) held.set(request.id, now() + request.holdMs);
        return good.admit(request);
      },
      async update(id, version, change) {
        const answer = await good.update(id, version, change);
        if (answer.outcome !== 'updated') return answer;
        const expiresAt = Math.max(answer.record.expiresAt, Math.min(held.get(id) ?? 0, answer.record.endsAt));
        return { outcome: 'updated', record: { ...answer.record, expiresAt } };
      },
    };
  },
  'forgets when what remains was to expire': (good) => ({
    async remains(id) {
      const left = await good.remains(id);
      if (left === undefined) return left;
      const { lastActiveAt, ttlSeconds, endsAt } = left.record;
      return { ...left, record: { ...left.record, expiresAt: Math.min(lastActiveAt + ttlSeconds * 1000, endsAt) } };
    },
  }),
  'counts a place for one call, however many it is for': (good) => ({
    admit: ({ places: _, ...request }) => good.admit(request),
  }),
  'never makes a place smaller': (good) => ({
    renew: (id, lease, holdMs, { places: _, ...spent } = {}) => good.renew(id, lease, holdMs, spent),
  }),
  'takes back calls that were reported as made': (good) => ({
    renew: (id, lease, holdMs, { unusedCalls = 0, ...spent } = {}) =>
      good.renew(id, lease, holdMs, unusedCalls === 0 ? spent : { unusedCalls, ...spent }),
  }),
  'gives back more calls than were taken': (good) => {
    const tooMany = new Map<string, number>();
    return {
      async release(id, lease, spent) {
        const before = await good.usage(id);
        await good.release(id, lease, spent);
        const after = await good.usage(id);
        if (before === undefined || after === undefined || before.calls === after.calls) return;
        tooMany.set(id, (tooMany.get(id) ?? 0) + (spent?.unusedCalls ?? 0) - (before.calls - after.calls));
      },
      async usage(id) {
        const use = await good.usage(id);
        return use && { ...use, calls: Math.max(0, use.calls - (tooMany.get(id) ?? 0)) };
      },
    };
  },
  'keeps the user’s calls that were not made': (good) => ({
    release: (id, lease, { limits: _, ...spent } = {}) => good.release(id, lease, spent),
  }),
  'forgets how long ago a session was used': (good) => ({
    release: (id, lease, { agoMs: _, ...spent } = {}) => good.release(id, lease, spent),
  }),
  'drops the ttl of state': (good) => ({
    state: {
      ...good.state,
      set: (id, key, value, { ttlMs: _, ...options } = {}) => good.state.set(id, key, value, options),
    },
  }),
  'ignores the version of state': (good) => ({
    state: {
      ...good.state,
      set: (id, key, value, { expectedVersion: _, ...options } = {}) => good.state.set(id, key, value, options),
    },
  }),
  'keeps state when the session is gone': (good) => ({
    state: {
      ...good.state,
      async get(id, key) {
        const remains = await good.remains(id);
        return remains === undefined
          ? good.state.get(id, key)
          : { key, value: 1, version: 1, bytes: 2, expiresAt: null };
      },
    },
  }),
  'checks the cap before it waits': (good) => {
    let creating = 0;
    return {
      async create(session, caps = {}) {
        creating++;
        const { perUser, ...rest } = caps;
        const before = (await good.list({ userId: session.userId })).sessions.length;
        await new Promise((resolve) => setImmediate(resolve));
        creating--;
        return before < (perUser ?? before + creating + 1)
          ? good.create(session, rest)
          : { outcome: 'full', cap: 'perUser' };
      },
    };
  },
  'puts a mark twice': (good) => ({
    marks: {
      ...good.marks,
      async put(id, key, value) {
        const there = await good.marks.get(id, key);
        await new Promise((resolve) => setImmediate(resolve));
        if (there !== undefined) return { outcome: 'present', value: there };
        const answer = await good.marks.put(id, key, value);
        return answer.outcome === 'present' ? { outcome: 'put' } : answer;
      },
    },
  }),
  'ignores the version of documents': (good) => ({
    documents: { ...good.documents, put: (collection, key, text) => good.documents.put(collection, key, text) },
  }),
  'counts the versions of documents anew': (good) => {
    const writes = new Map<string, number>();
    const nameOf = (collection: string, key: string) => `${collection} ${key}`;
    return {
      documents: {
        ...good.documents,
        async get(collection, key) {
          const found = await good.documents.get(collection, key);
          return found && { ...found, version: writes.get(nameOf(collection, key)) ?? 0 };
        },
        async put(collection, key, text, { expectedVersion } = {}) {
          const version = writes.get(nameOf(collection, key)) ?? 0;
          if (expectedVersion !== undefined && expectedVersion !== version) return { outcome: 'conflict', version };
          const answer = await good.documents.put(collection, key, text);
          if (answer.outcome !== 'written') return answer;
          writes.set(nameOf(collection, key), version + 1);
          return { outcome: 'written', version: version + 1 };
        },
        async delete(collection, key, { expectedVersion } = {}) {
          const version = writes.get(nameOf(collection, key)) ?? 0;
          if (expectedVersion !== undefined && expectedVersion !== version) return { outcome: 'conflict', version };
          writes.delete(nameOf(collection, key));
          return good.documents.delete(collection, key);
        },
      },
    };
  },
  'mixes up collections of documents': (good) => ({
    documents: {
      ...good.documents,
      async get(collection, key) {
        return (await good.documents.get(collection, key)) ?? good.documents.get('things', key);
      },
    },
  }),
  'gives its own copy out of hand': (good) => {
    const shared = new Map<string, Awaited<ReturnType<SessionStore['get']>>>();
    return {
      async create(session, caps) {
        const created = await good.create(session, caps);
        if (created.outcome === 'created') shared.set(session.id, created.record);
        return created;
      },
      async get(id) {
        const record = await good.get(id);
        const given = shared.get(id);
        return record === undefined || given?.version !== record.version
          ? record
          : { ...record, metadata: given.metadata };
      },
    };
  },
  'skips a session at the end of a page': (good) => ({
    async list(filter, page) {
      const found = await good.list(filter, page);
      if (found.next === null) return found;
      const last = found.sessions.at(-1);
      const more = await good.list(filter, { ...page, after: found.next, limit: 1 });
      return last === undefined ? found : { ...found, next: more.next ?? found.next };
    },
  }),
  'tells nobody that a session ended': (good) => ({
    watch: (listener) => good.watch((change) => change.kind !== 'ended' && listener(change)),
  }),
  'calls every change a restriction': (good) => ({
    watch: (listener) =>
      good.watch((change) => listener(change.kind === 'changed' ? { ...change, restricted: true } : change)),
  }),
  'takes its own changes for those of others': (good) => ({
    watch: (listener) => good.watch((change) => listener('here' in change ? { ...change, here: false } : change)),
  }),
  'answers after it was closed': (good) => ({ close: async () => {}, ping: good.ping }),
  'says “retry” too early': (good) => ({
    async admit(request) {
      const answer = await good.admit(request);
      if (answer.outcome !== 'quota' || answer.retryAfterMs === null) return answer;
      return { ...answer, retryAfterMs: Math.floor(answer.retryAfterMs / 1000) * 1000 };
    },
  }),
};

export function openFaultyStore(lie: Fault, options: object, now: () => number): SessionStore {
  const good = openMemoryStore({ ...options, now });
  return { ...good, ...lie(good, now) };
}
