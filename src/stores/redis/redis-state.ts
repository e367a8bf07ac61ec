import { checkKey, checkMark, checkStateList, countEntryBytes, readStateValue } from '../checks.ts';
import { cutKeyPage, maxMarks, type SessionMarks, type SessionStateStore, type StateKey } from '../state.ts';
import type { StateLimits } from '../store.ts';
import { parseGone, prepareScript, type RedisConnection, type RedisScript, toList } from './connection.ts';

interface EntryScripts {
  readonly get: RedisScript;
  readonly set: RedisScript;
  readonly list: RedisScript;
  readonly delete: RedisScript;
}

/** The keys of entries and of their expiry, the field of their bytes, and what a write announces. */
interface EntryPlaces {
  readonly entries: string;
  readonly expiries: string;
  readonly bytes: string;
  readonly announce: string;
}

const stateScripts = prepareEntryScripts({ entries: 'd', expiries: 'f', bytes: 'z', announce: '' });
const resultScripts = prepareEntryScripts({
  entries: 'r',
  expiries: 'g',
  bytes: 'rz',
  announce: "tell_of('result', id, number)",
});

/** The format of an entry is "<version> <expiry or 0> <bytes> <value>". */
function prepareEntryScripts(places: EntryPlaces): EntryScripts {
  const entryFunctions = `
local id = ARGV[2]
local D, F, S = P .. '${places.entries}:' .. id, P .. '${places.expiries}:' .. id, P .. 's:' .. id
local function parse(text)
  local version, expires, bytes, at = string.match(text, '^(%d+) (%d+) (%d+) ()')
  return tonumber(version), tonumber(expires), tonumber(bytes), string.sub(text, at)
end
local function entry(key)
  local text = redis.call('HGET', D, key)
  if not text then return 0 end
  local version, expires, bytes, value = parse(text)
  if expires > 0 and T >= expires then return 0 end
  return version, expires, bytes, value
end
local function remove(key)
  local text = redis.call('HGET', D, key)
  if not text then return end
  local _, _, bytes = parse(text)
  redis.call('HDEL', D, key)
  redis.call('ZREM', F, key)
  redis.call('HINCRBY', S, '${places.bytes}', -bytes)
end
`;
  return {
    get: prepareScript(`${entryFunctions}
if gone(load(id)) then return {} end
local version, expires, bytes, value = entry(ARGV[3])
if version == 0 then return {} end
return { int(version), int(expires), int(bytes), value }
`),
    set: prepareScript(`${entryFunctions}
local key, value, bytes, expected, ttl, too_long, most_keys, most_bytes = unpack(ARGV, 3)
local why = gone(load(id))
if why then return { why } end
local version = entry(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if too_long == '1' then return { 'full', 'valueBytes' } end
for _, old in ipairs(redis.call('ZRANGEBYSCORE', F, '-inf', int(T))) do remove(old) end
if version == 0 and redis.call('HLEN', D) >= tonumber(most_keys) then return { 'full', 'keys' } end
local _, _, before = entry(key)
local total = tonumber(redis.call('HGET', S, '${places.bytes}') or 0) - (before or 0) + tonumber(bytes)
if total > tonumber(most_bytes) then return { 'full', 'totalBytes' } end
remove(key)
local expires = 0
if ttl ~= '' then
  expires = T + tonumber(ttl)
  redis.call('ZADD', F, int(expires), key)
end
local number = redis.call('HINCRBY', S, 'x', 1)
redis.call('HSET', D, key, number .. ' ' .. int(expires) .. ' ' .. bytes .. ' ' .. value)
redis.call('HINCRBY', S, '${places.bytes}', bytes)
${places.announce}
return { 'written', int(number) }
`),
    list: prepareScript(`${entryFunctions}
if gone(load(id)) then return {} end
local found = {}
local all = redis.call('HGETALL', D)
for i = 1, #all, 2 do
  local version, expires, bytes = parse(all[i + 1])
  if expires == 0 or T < expires then found[#found + 1] = { all[i], int(version), int(expires), int(bytes) } end
end
return found
`),
    delete: prepareScript(`${entryFunctions}
local key, expected = unpack(ARGV, 3)
local why = gone(load(id))
if why then return { why } end
local version = entry(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if version == 0 then return { 'absent' } end
remove(key)
return { 'deleted' }
`),
  };
}

const putMarkScript = prepareScript(`
local id, key, value, most = unpack(ARGV, 2)
local why = gone(load(id))
if why then return { why } end
local present = redis.call('HGET', P .. 'm:' .. id, key)
if present then return { 'present', present } end
if redis.call('HLEN', P .. 'm:' .. id) >= tonumber(most) then return { 'full' } end
redis.call('HSET', P .. 'm:' .. id, key, value)
return { 'put' }
`);

const getMarkScript = prepareScript(`
if gone(load(ARGV[2])) then return false end
return redis.call('HGET', P .. 'm:' .. ARGV[2], ARGV[3])
`);

const deleteMarkScript = prepareScript(`
if gone(load(ARGV[2])) then return 0 end
return redis.call('HDEL', P .. 'm:' .. ARGV[2], ARGV[3])
`);

function parseStateKey(key: string, version: string, expires: string, bytes: string): StateKey {
  return { key, version: Number(version), bytes: Number(bytes), expiresAt: expires === '0' ? null : Number(expires) };
}

export function createRedisState(connection: RedisConnection, limits: StateLimits): SessionStateStore {
  return createEntries(connection, stateScripts, limits);
}

/** Publishes `origin` with every result, so that this store recognises its own. */
export function createRedisResults(
  connection: RedisConnection,
  limits: StateLimits,
  origin: string,
): SessionStateStore {
  return createEntries(connection, resultScripts, limits, origin);
}

function createEntries(
  connection: RedisConnection,
  scripts: EntryScripts,
  limits: StateLimits,
  origin = '',
): SessionStateStore {
  return {
    async get(id, key) {
      checkKey(id, key);
      const [version, expires, bytes, value] = toList(await connection.run(scripts.get, id, key)) as string[];
      if (version === undefined || expires === undefined || bytes === undefined) return undefined;
      return { ...parseStateKey(key, version, expires, bytes), value: JSON.parse(value as string) };
    },

    async set(id, key, value, options = {}) {
      checkKey(id, key);
      const read = readStateValue(value, options, limits);
      const text = 'text' in read ? read.text : '';
      const { expectedVersion = '', ttlMs = '' } = options;
      const tooLong = 'text' in read ? '0' : '1';
      const bounds = [tooLong, limits.keys, limits.totalBytes];
      const reply = await connection.run(
        scripts.set,
        id,
        key,
        text,
        countEntryBytes(key, text),
        expectedVersion,
        ttlMs,
        ...bounds,
        origin,
      );
      const [status, detail] = toList(reply);
      const gone = parseGone(status);
      if (gone !== undefined) return gone;
      if (status === 'full') return { outcome: 'full', limit: detail as keyof StateLimits };
      return { outcome: status === 'written' ? 'written' : 'conflict', version: Number(detail) };
    },

    async list(id, options = {}) {
      checkStateList(id, options);
      const found = toList(await connection.run(scripts.list, id)) as [string, string, string, string][];
      return cutKeyPage(
        found.map((entry) => parseStateKey(...entry)),
        options,
      );
    },

    async delete(id, key, options = {}) {
      checkKey(id, key);
      const [status, version] = toList(await connection.run(scripts.delete, id, key, options.expectedVersion ?? ''));
      const gone = parseGone(status);
      if (gone !== undefined) return gone;
      if (status === 'conflict') return { outcome: 'conflict', version: Number(version) };
      return { outcome: status === 'deleted' ? 'deleted' : 'absent' };
    },
  };
}

export function createRedisMarks(connection: RedisConnection): SessionMarks {
  return {
    async put(id, key, value = '') {
      checkMark(id, key, value);
      const [status, present] = toList(await connection.run(putMarkScript, id, key, value, maxMarks));
      const gone = parseGone(status);
      if (gone !== undefined) return gone;
      if (status === 'present') return { outcome: 'present', value: present as string };
      return { outcome: status === 'put' ? 'put' : 'full' };
    },
    async get(id, key) {
      checkKey(id, key);
      return ((await connection.run(getMarkScript, id, key)) as string | null) ?? undefined;
    },
    async delete(id, key) {
      checkKey(id, key);
      return (await connection.run(deleteMarkScript, id, key)) === 1;
    },
  };
}
