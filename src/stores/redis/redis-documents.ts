import { checkDocument, checkDocumentList, fitsDocument } from '../checks.ts';
import { type DocumentLimits, type Documents, findListStart, maxPageBytes } from '../documents.ts';
import { prepareScript, type RedisConnection, toList } from './connection.ts';

/** The format of a document is "<version> <text>". */
const documentFunctions = `
local collection = ARGV[2]
local O, Z = P .. 'o:' .. collection, P .. 'oz:' .. collection
local function document(key)
  local written = redis.call('HGET', O, key)
  if not written then return 0 end
  local version, at = string.match(written, '^(%d+) ()')
  return tonumber(version), string.sub(written, at)
end
`;

const getScript = prepareScript(`${documentFunctions}
local version, text = document(ARGV[3])
if version == 0 then return {} end
return { int(version), text }
`);

/** Versions are stored apart from the documents, so that they keep rising when all documents are deleted. */
const putScript = prepareScript(`${documentFunctions}
local key, text, expected, too_long, most, most_bytes = unpack(ARGV, 3)
local version, before = document(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if too_long == '1' then return { 'full', 'textBytes' } end
if version == 0 and redis.call('HLEN', O) >= tonumber(most) then return { 'full', 'documents' } end
local bytes = tonumber(redis.call('HGET', P .. 'ob', collection) or 0) - #(before or '') + #text
if most_bytes ~= '' and bytes > tonumber(most_bytes) then return { 'full', 'totalBytes' } end
redis.call('HSET', P .. 'ob', collection, int(bytes))
local number = redis.call('HINCRBY', P .. 'ov', collection, 1)
redis.call('HSET', O, key, int(number) .. ' ' .. text)
redis.call('ZADD', Z, 0, key)
redis.call('PUBLISH', KEYS[1] .. ':changes', 'document ' .. collection .. ' ' .. key)
return { 'written', int(number) }
`);

const deleteScript = prepareScript(`${documentFunctions}
local key, expected = unpack(ARGV, 3)
local version, before = document(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if version == 0 then return { 'absent' } end
redis.call('HINCRBY', P .. 'ob', collection, int(0 - #before))
redis.call('HDEL', O, key)
redis.call('ZREM', Z, key)
redis.call('PUBLISH', KEYS[1] .. ':changes', 'document ' .. collection .. ' ' .. key)
return { 'deleted' }
`);

/** Keys of equal score are sorted by their bytes, so keys with a common prefix are adjacent. */
const listScript = prepareScript(`${documentFunctions}
local start, prefix, limit, most = unpack(ARGV, 3)
local keys = redis.call('ZRANGEBYLEX', Z, start, '+', 'LIMIT', 0, tonumber(limit) + 1)
local found, bytes = {}, 0
for _, key in ipairs(keys) do
  if string.sub(key, 1, #prefix) ~= prefix then return { 0, found } end
  if #found == tonumber(limit) or bytes >= tonumber(most) then return { 1, found } end
  local version, text = document(key)
  found[#found + 1] = { key, int(version), text }
  bytes = bytes + #text
end
return { 0, found }
`);

export function createRedisDocuments(connection: RedisConnection, limits: DocumentLimits): Documents {
  return {
    async get(collection, key) {
      checkDocument(collection, key);
      const [version, text] = toList(await connection.run(getScript, collection, key)) as string[];
      return version === undefined ? undefined : { key, text: text as string, version: Number(version) };
    },

    async put(collection, key, text, options = {}) {
      checkDocument(collection, key, options);
      const fits = fitsDocument(text, limits);
      const { expectedVersion = '', maxDocuments = limits.documents, maxBytes = '' } = options;
      const max = Math.min(limits.documents, maxDocuments);
      const values = [collection, key, fits ? text : '', expectedVersion, fits ? '0' : '1', max, maxBytes];
      const [status, detail] = toList(await connection.run(putScript, ...values));
      if (status === 'full') return { outcome: 'full', limit: detail as keyof DocumentLimits | 'totalBytes' };
      return { outcome: status === 'written' ? 'written' : 'conflict', version: Number(detail) };
    },

    async delete(collection, key, options = {}) {
      checkDocument(collection, key, options);
      const { expectedVersion = '' } = options;
      const [status, version] = toList(await connection.run(deleteScript, collection, key, expectedVersion));
      if (status === 'conflict') return { outcome: 'conflict', version: Number(version) };
      return { outcome: status === 'deleted' ? 'deleted' : 'absent' };
    },

    async list(collection, options = {}) {
      checkDocumentList(collection, options);
      const { prefix = '', limit = 100 } = options;
      const from = findListStart(options);
      const start = `${from.self ? '[' : '('}${from.key}`;
      const [more, found] = toList(await connection.run(listScript, collection, start, prefix, limit, maxPageBytes));
      const documents = (toList(found) as [string, string, string][]).map(([key, version, text]) => ({
        key,
        text,
        version: Number(version),
      }));
      return { documents, next: more === 1 ? (documents.at(-1)?.key ?? null) : null };
    },
  };
}
