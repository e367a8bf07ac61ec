import { checkChange, checkFilter, checkId, checkNew, readCursor } from '../checks.ts';
import { applyChange, isRestricted, type SessionRecord, toBody } from '../record.ts';
import { isPrefix, isReference, maxMatches } from '../session-references.ts';
import type { Caps, SessionFilter, SessionStore } from '../store.ts';
import { parseGone, parseRecord, prepareScript, type RedisConnection, toList } from './connection.ts';

const createScript = prepareScript(`
local id, user, workspace, parent, name, ttl, lifetime, body, per_user, per_parent, in_all = unpack(ARGV, 2)
local before = load(id)
if gone(before) ~= 'missing' then return { 'exists', 'id' } end
-- Remains nobody needs any more; whatever still names them goes as well.
if before then
  if not before.r then bury(before, 'expired') end
  redis.call('DEL', P .. 's:' .. id)
end
if name ~= '' then
  local holder = redis.call('HGET', P .. 'nm:' .. user, name)
  if holder then
    local other = load(holder)
    if not gone(other) then return { 'exists', 'name' } end
    if other and not other.r then bury(other, 'expired') end
  end
end
if per_user ~= '' and redis.call('ZCOUNT', P .. 'live:u:' .. user, '(' .. int(T), '+inf') >= tonumber(per_user) then
  return { 'full', 'perUser' }
end
if per_parent ~= '' and parent ~= '' then
  local siblings = 0
  for _, sibling in ipairs(redis.call('ZRANGE', P .. 'by:p:' .. parent, 0, -1)) do
    if not gone(load(sibling)) then siblings = siblings + 1 end
  end
  if siblings >= tonumber(per_parent) then return { 'full', 'perParent' } end
end
if in_all ~= '' and redis.call('ZCOUNT', P .. 'live', '(' .. int(T), '+inf') >= tonumber(in_all) then
  return { 'full', 'inAll' }
end
local s = { id = id, u = user, e = T + tonumber(lifetime), i = T + tonumber(ttl) }
redis.call('HSET', P .. 's:' .. id, 'b', body, 'v', 1, 'u', user, 'c', int(T), 't', ttl, 'e', int(s.e), 'a', int(T),
  'i', int(s.i), 'q', 0, 'k', 0, 'y', 0, 'x', 0, 'z', 0)
redis.call('ZADD', P .. 'ids', 0, id)
redis.call('ZADD', P .. 'by:all', int(T), id)
redis.call('ZADD', P .. 'by:u:' .. user, int(T), id)
if workspace ~= '' then
  redis.call('HSET', P .. 's:' .. id, 'w', workspace)
  redis.call('ZADD', P .. 'by:w:' .. workspace, int(T), id)
end
if parent ~= '' then
  local above = redis.call('HGET', P .. 's:' .. parent, 'w') or ''
  redis.call('HSET', P .. 's:' .. id, 'p', parent, 'cw', above == workspace and '0' or '1')
  redis.call('ZADD', P .. 'by:p:' .. parent, int(T), id)
end
if name ~= '' then
  redis.call('HSET', P .. 's:' .. id, 'n', name)
  redis.call('HSET', P .. 'nm:' .. user, name, id)
  redis.call('SADD', P .. 'nn:' .. name, id)
end
place(s)
tell_of('created', id, '1')
return { 'created', record(id) }
`);

/** Returns the record, and the reason why it is gone or an empty string. */
const readScript = prepareScript(`
local id = ARGV[2]
local why = gone(load(id))
if why == 'missing' then return { why } end
return { why or '', record(id) }
`);

/** The body was made from the expected version, so it is written only while that is the current one. */
const updateScript = prepareScript(`
local id, expected, body, ttl, ends, kind = unpack(ARGV, 2)
local s = load(id)
local why = gone(s)
if why then return { why } end
if s.v ~= tonumber(expected) then return { 'stale', record(id) } end
s.t = tonumber(ttl)
s.e = tonumber(ends)
local held = redis.call('ZRANGEBYSCORE', P .. 'h:' .. id, '(' .. ends, '+inf')
for _, lease in ipairs(held) do
  redis.call('ZADD', P .. 'h:' .. id, ends, lease)
end
for _, member in ipairs(redis.call('ZRANGEBYSCORE', P .. 'c:' .. id, '(' .. ends, '+inf')) do
  redis.call('ZADD', P .. 'c:' .. id, ends, member)
  redis.call('ZADD', P .. 'c:u:' .. s.u, 'XX', ends, member)
  if s.w then redis.call('ZADD', P .. 'c:w:' .. s.w, 'XX', ends, member) end
end
s.i = idle_from(s, s.a)
redis.call('HSET', P .. 's:' .. id, 'b', body, 'v', s.v + 1, 't', ttl, 'e', ends, 'i', int(s.i))
place(s)
tell_of(kind, id, s.v + 1)
return { 'updated', record(id) }
`);

const endScript = prepareScript(`
local s = load(ARGV[2])
if gone(s) then return 0 end
bury(s, ARGV[3])
return 1
`);

/** Sweeps a limited number at a time, so that no other command waits long. */
const sweepScript = prepareScript(`
local due = redis.call('ZRANGEBYSCORE', P .. 'live', '-inf', int(T), 'LIMIT', 0, 100)
for _, id in ipairs(due) do
  local s = load(id)
  if s then bury(s, 'expired') else redis.call('ZREM', P .. 'live', id) end
end
return #due
`);

/** Reads one index by age. Entries that were read but do not match still move the page on. */
const listScript = prepareScript(`
local index, at, after, limit, user, workspace, parent = unpack(ARGV, 2)
limit = tonumber(limit)
local shown, looked, offset = {}, 0, 0
local last_at, last_id
while #shown < limit and looked < 2000 do
  local chunk = redis.call('ZRANGEBYSCORE', P .. 'by:' .. index, at, '+inf', 'WITHSCORES', 'LIMIT', offset, 100)
  if #chunk == 0 then return { '', shown } end
  for i = 1, #chunk, 2 do
    local id, created = chunk[i], tonumber(chunk[i + 1])
    if created > tonumber(at) or id > after then
      if #shown == limit then return { int(last_at) .. '.' .. last_id, shown } end
      looked = looked + 1
      last_at, last_id = created, id
      local s = load(id)
      if s and not gone(s) and (user == '' or s.u == user) and (workspace == '' or s.w == workspace)
        and (parent == '' or s.p == parent) then
        shown[#shown + 1] = record(id)
      end
    end
  end
  offset = offset + 100
end
local total = redis.call('ZCARD', P .. 'by:' .. index)
if redis.call('ZRANK', P .. 'by:' .. index, last_id) == total - 1 then return { '', shown } end
return { int(last_at) .. '.' .. last_id, shown }
`);

const findScript = prepareScript(`
local reference, prefix, most, user, workspace, parent = unpack(ARGV, 2)
local function fits(id)
  local s = load(id)
  return s and not gone(s) and (user == '' or s.u == user) and (workspace == '' or s.w == workspace)
    and (parent == '' or s.p == parent)
end
local function these(ids)
  local shown = {}
  for _, id in ipairs(ids) do
    if #shown < tonumber(most) and fits(id) then shown[#shown + 1] = record(id) end
  end
  return shown
end
local exact = these({ reference })
if #exact > 0 then return exact end
local named
if user ~= '' then
  named = these({ redis.call('HGET', P .. 'nm:' .. user, reference) or reference })
else
  named = these(redis.call('SRANDMEMBER', P .. 'nn:' .. reference, 100))
end
if #named > 0 or prefix == '' then return named end
return these(redis.call('ZRANGEBYLEX', P .. 'ids', '[' .. reference, '(' .. reference .. '~', 'LIMIT', 0, 1000))
`);

type RedisSessions = Pick<SessionStore, 'create' | 'get' | 'remains' | 'update' | 'end' | 'list' | 'find' | 'sweep'>;

function listFilterValues({ userId = '', workspaceId = '', parentId = '' }: SessionFilter): string[] {
  return [userId, workspaceId, parentId];
}

/** Chooses the index with the fewest candidates. */
function chooseIndex({ userId, workspaceId, parentId }: SessionFilter): string {
  if (parentId !== undefined) return `p:${parentId}`;
  if (userId !== undefined) return `u:${userId}`;
  return workspaceId === undefined ? 'all' : `w:${workspaceId}`;
}

/** Publishes `origin` with every change, so that this store recognises its own. */
export function createRedisSessions(connection: RedisConnection, origin: string): RedisSessions {
  async function readSession(id: string): Promise<{ why: string; record: SessionRecord } | undefined> {
    checkId(id);
    const [why, record] = toList(await connection.run(readScript, id));
    return why === 'missing' ? undefined : { why: why as string, record: parseRecord(record) };
  }

  return {
    async create(session, caps = {}) {
      checkNew(session, caps);
      const reply = await connection.run(
        createScript,
        session.id,
        session.userId,
        session.workspaceId ?? '',
        session.parentId ?? '',
        session.name ?? '',
        session.ttlSeconds * 1000,
        session.lifetimeSeconds * 1000,
        JSON.stringify(toBody(session)),
        caps.perUser ?? '',
        caps.perParent ?? '',
        caps.inAll ?? '',
        origin,
      );
      const [status, detail] = toList(reply);
      if (status === 'exists') return { outcome: 'exists', what: detail as 'id' | 'name' };
      if (status === 'full') return { outcome: 'full', cap: detail as keyof Caps };
      return { outcome: 'created', record: parseRecord(detail) };
    },

    async get(id) {
      const found = await readSession(id);
      return found?.why === '' ? found.record : undefined;
    },

    async remains(id) {
      const found = await readSession(id);
      if (found === undefined || found.why === '') return undefined;
      const gone = parseGone(found.why);
      return { record: found.record, reason: gone?.outcome === 'ended' ? gone.reason : 'expired' };
    },

    async update(id, expectedVersion, change) {
      checkChange(expectedVersion, change);
      const found = await readSession(id);
      if (found === undefined) return { outcome: 'missing' };
      const gone = parseGone(found.why);
      if (gone !== undefined) return gone;
      if (found.record.version !== expectedVersion) return { outcome: 'stale', record: found.record };
      const next = applyChange(found.record, change);
      const body = JSON.stringify(toBody(next));
      const kind = isRestricted(found.record, next) ? 'restricted' : 'changed';
      const values = [expectedVersion, body, next.ttlSeconds * 1000, next.endsAt, kind, origin];
      const [status, record] = toList(await connection.run(updateScript, id, ...values));
      return parseGone(status) ?? { outcome: status === 'updated' ? 'updated' : 'stale', record: parseRecord(record) };
    },

    async end(id, reason = 'ended') {
      checkId(id);
      return (await connection.run(endScript, id, reason, origin)) === 1;
    },

    async list(filter = {}, page = {}) {
      checkFilter(filter);
      const { at, id, limit } = readCursor(page);
      const reply = await connection.run(listScript, chooseIndex(filter), at, id, limit, ...listFilterValues(filter));
      const [next, sessions] = toList(reply);
      return { sessions: toList(sessions).map(parseRecord), next: next === '' ? null : (next as string) };
    },

    async find(reference, filter = {}) {
      checkFilter(filter);
      if (!isReference(reference)) return [];
      const prefix = isPrefix(reference) ? '1' : '';
      const reply = await connection.run(findScript, reference, prefix, maxMatches, ...listFilterValues(filter));
      return toList(reply)
        .map(parseRecord)
        .sort((a, b) => a.createdAt - b.createdAt || (a.id < b.id ? -1 : 1));
    },

    async sweep() {
      let buried = 0;
      for (let found = -1; found !== 0; buried += found) found = Number(await connection.run(sweepScript, origin));
      return buried;
    },
  };
}
