/** A document is written as "<version> <text>". */
const documents = `
local collection = ARGV[2]
local O, Z = P .. 'o:' .. collection, P .. 'oz:' .. collection
local function document(key)
  local written = redis.call('HGET', O, key)
  if not written then return 0 end
  local version, at = string.match(written, '^(%d+) ()')
  return tonumber(version), string.sub(written, at)
end
`;

export const documentGetScript = `${documents}
local version, text = document(ARGV[3])
if version == 0 then return {} end
return { int(version), text }
`;

/** The versions lie apart from the documents, so that they go on rising when all of those are deleted. */
export const documentPutScript = `${documents}
local key, text, expected, too_long, most = unpack(ARGV, 3)
local version = document(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if too_long == '1' then return { 'full', 'textBytes' } end
if version == 0 and redis.call('HLEN', O) >= tonumber(most) then return { 'full', 'documents' } end
local number = redis.call('HINCRBY', P .. 'ov', collection, 1)
redis.call('HSET', O, key, int(number) .. ' ' .. text)
redis.call('ZADD', Z, 0, key)
redis.call('PUBLISH', KEYS[1] .. ':changes', 'document ' .. collection .. ' ' .. key)
return { 'written', int(number) }
`;

export const documentDeleteScript = `${documents}
local key, expected = unpack(ARGV, 3)
local version = document(key)
if expected ~= '' and tonumber(expected) ~= version then return { 'conflict', int(version) } end
if version == 0 then return { 'absent' } end
redis.call('HDEL', O, key)
redis.call('ZREM', Z, key)
redis.call('PUBLISH', KEYS[1] .. ':changes', 'document ' .. collection .. ' ' .. key)
return { 'deleted' }
`;

/** Keys of equal score lie in the order of their bytes, so all that begin alike lie together. */
export const documentListScript = `${documents}
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
`;
