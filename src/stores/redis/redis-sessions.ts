import { checkChange, checkFilter, checkId, checkNew, readPage } from '../checks.ts';
import { bodyOf, changed, isRestricted, type SessionRecord } from '../record.ts';
import { isPrefix, isReference, mostMatches } from '../references.ts';
import type { SessionFilter, SessionStore } from '../store.ts';
import { type RedisConnection, script } from './connection.ts';
import { asList, goneFrom, recordFrom } from './replies.ts';
import * as scripts from './scripts/session-scripts.ts';

const create = script(scripts.createScript);
const read = script(scripts.readScript);
const update = script(scripts.updateScript);
const end = script(scripts.endScript);
const sweep = script(scripts.sweepScript);
const list = script(scripts.listScript);
const find = script(scripts.findScript);

type Sessions = Pick<SessionStore, 'create' | 'get' | 'remains' | 'update' | 'end' | 'list' | 'find' | 'sweep'>;

const filterValues = ({ userId = '', workspaceId = '', parentId = '' }: SessionFilter) => [
  userId,
  workspaceId,
  parentId,
];

/** The index with the fewest sessions that fit. */
function indexFor({ userId, workspaceId, parentId }: SessionFilter): string {
  if (parentId !== undefined) return `p:${parentId}`;
  if (userId !== undefined) return `u:${userId}`;
  return workspaceId === undefined ? 'all' : `w:${workspaceId}`;
}

/** `origin` is told with every change, so that we know our own. */
export function redisSessions(connection: RedisConnection, origin: string): Sessions {
  async function look(id: string): Promise<{ readonly why: string; readonly record: SessionRecord } | undefined> {
    checkId(id);
    const [why, record] = asList(await connection.run(read, id));
    return why === 'missing' ? undefined : { why: why as string, record: recordFrom(record) };
  }

  return {
    async create(session, caps = {}) {
      checkNew(session, caps);
      const reply = await connection.run(
        create,
        session.id,
        session.userId,
        session.workspaceId ?? '',
        session.parentId ?? '',
        session.name ?? '',
        session.ttlSeconds * 1000,
        session.lifetimeSeconds * 1000,
        JSON.stringify(bodyOf(session)),
        caps.perUser ?? '',
        caps.inAll ?? '',
        origin,
      );
      const [word, detail] = asList(reply);
      if (word === 'exists') return { outcome: 'exists', what: detail as 'id' | 'name' };
      if (word === 'full') return { outcome: 'full', cap: detail as 'perUser' | 'inAll' };
      return { outcome: 'created', record: recordFrom(detail) };
    },

    async get(id) {
      const found = await look(id);
      return found?.why === '' ? found.record : undefined;
    },

    async remains(id) {
      const found = await look(id);
      if (found === undefined || found.why === '') return undefined;
      const gone = goneFrom(found.why);
      return { record: found.record, reason: gone?.outcome === 'ended' ? gone.reason : 'expired' };
    },

    async update(id, expectedVersion, change) {
      checkChange(expectedVersion, change);
      const found = await look(id);
      if (found === undefined) return { outcome: 'missing' };
      const gone = goneFrom(found.why);
      if (gone !== undefined) return gone;
      if (found.record.version !== expectedVersion) return { outcome: 'stale', record: found.record };
      const next = changed(found.record, change);
      const body = JSON.stringify(bodyOf(next));
      const kind = isRestricted(found.record, next) ? 'restricted' : 'changed';
      const values = [expectedVersion, body, next.ttlSeconds * 1000, next.endsAt, kind, origin];
      const reply = await connection.run(update, id, ...values);
      const [word, record] = asList(reply);
      const outcome = word === 'updated' ? 'updated' : 'stale';
      return goneFrom(word) ?? { outcome, record: recordFrom(record) };
    },

    async end(id, reason = 'ended') {
      checkId(id);
      return (await connection.run(end, id, reason, origin)) === 1;
    },

    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const { at, id, limit } = readPage(page);
      const reply = await connection.run(list, indexFor(filter), at, id, limit, ...filterValues(filter));
      const [next, sessions] = asList(reply);
      return { sessions: asList(sessions).map(recordFrom), next: next === '' ? null : (next as string) };
    },

    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      const prefix = isPrefix(reference) ? '1' : '';
      const reply = await connection.run(find, reference, prefix, mostMatches, ...filterValues(filter));
      return asList(reply)
        .map(recordFrom)
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
    },

    async sweep() {
      let buried = 0;
      for (let found = -1; found !== 0; buried += found) found = Number(await connection.run(sweep, origin));
      return buried;
    },
  };
}
