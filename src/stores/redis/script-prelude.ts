/**
 * The beginning of every script. KEYS[1] is the prefix of all keys, a hash tag, so that they lie in one slot of a
 * cluster: a request touches its session, its user and its workspace at once, and names are unique across sessions.
 * ARGV[1] is the time in tests; when it is empty, the server's own clock counts, never the caller's.
 *
 * s:<id>     the session: b body, v version, u user, w workspace, p parent, n name, c created, t ttl, e ends,
 *            a last active, i idle at, r reason it is gone, q pace, k calls, y bytes, x state version, z state bytes,
 *            mq pace of messages sent, mf and mn first and last number of the inbox, mb its bytes,
 *            cw 0 for a child in the workspace of its parent
 * h:<id>     leases, by when they run out; l:<id> what each was taken with: "<places> <calls> <day>"
 * c:<id>     those that count, as "<lease> <places>", by when they run out; c:u:<user>, c:w:<workspace> the same of all
 * d:<id>     state; f:<id> when its entries run out; m:<id> marks; i:<id> messages by number;
 * r:<id> results; g:<id> when they run out; rz in the session: their bytes
 * q:u:<user>, q:w:<workspace>  counters
 * live, live:u:<user>          by when they expire; ids by id; by:all, by:u:…, by:w:…, by:p:… by age
 * o:<collection>  documents, as version and text; oz:<collection> their keys in order; ov the versions given so far, ob the bytes
 * nm:<user>  name to id; nn:<name> ids of that name
 */
export const scriptPrelude = `
local P = KEYS[1] .. ':'
local REMAINS = 3600000
local T
if ARGV[1] == '' then
  local time = redis.call('TIME')
  T = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
else
  T = tonumber(ARGV[1])
end
local function int(number) return string.format('%.0f', number) end

local function load(id)
  local f = redis.call('HMGET', P .. 's:' .. id, 'v', 'u', 'w', 'p', 'n', 'c', 't', 'e', 'a', 'i', 'r', 'cw')
  if not f[1] then return nil end
  return { id = id, v = tonumber(f[1]), u = f[2], w = f[3], p = f[4], n = f[5], c = tonumber(f[6]), t = tonumber(f[7]),
    e = tonumber(f[8]), a = tonumber(f[9]), i = tonumber(f[10]), r = f[11],
    -- Calls of a child in the workspace of its parent count there with the parent.
    cw = f[3] and f[12] ~= '0' and f[3] }
end

local function gone(s)
  if not s or T >= s.e + REMAINS then return 'missing' end
  if s.r then return s.r end
  if T >= s.i or T >= s.e then return 'expired' end
  return nil
end

local function record(id)
  local f = redis.call('HMGET', P .. 's:' .. id, 'b', 'v', 'c', 't', 'e', 'a', 'i')
  return f
end

local function tell(kind, id, detail)
  redis.call('PUBLISH', KEYS[1] .. ':changes', kind .. ' ' .. id .. ' ' .. detail)
end

-- Whatever tells of a session is given who asks for it, last.
local function tell_of(kind, id, detail)
  tell(kind, id, detail .. ' ' .. ARGV[#ARGV])
end

local function place(s)
  local expires = int(math.min(s.i, s.e))
  redis.call('ZADD', P .. 'live', expires, s.id)
  redis.call('ZADD', P .. 'live:u:' .. s.u, expires, s.id)
end

local function bury(s, reason)
  local key = P .. 's:' .. s.id
  for _, member in ipairs(redis.call('ZRANGE', P .. 'c:' .. s.id, 0, -1)) do
    redis.call('ZREM', P .. 'c:u:' .. s.u, member)
    if s.w then redis.call('ZREM', P .. 'c:w:' .. s.w, member) end
  end
  redis.call('DEL', P .. 'h:' .. s.id, P .. 'l:' .. s.id, P .. 'c:' .. s.id)
  redis.call('DEL', P .. 'd:' .. s.id, P .. 'f:' .. s.id, P .. 'm:' .. s.id, P .. 'i:' .. s.id,
    P .. 'r:' .. s.id, P .. 'g:' .. s.id)
  redis.call('ZREM', P .. 'live', s.id)
  redis.call('ZREM', P .. 'live:u:' .. s.u, s.id)
  redis.call('ZREM', P .. 'ids', s.id)
  redis.call('ZREM', P .. 'by:all', s.id)
  redis.call('ZREM', P .. 'by:u:' .. s.u, s.id)
  if s.w then redis.call('ZREM', P .. 'by:w:' .. s.w, s.id) end
  if s.p then redis.call('ZREM', P .. 'by:p:' .. s.p, s.id) end
  if s.n then
    if redis.call('HGET', P .. 'nm:' .. s.u, s.n) == s.id then redis.call('HDEL', P .. 'nm:' .. s.u, s.n) end
    redis.call('SREM', P .. 'nn:' .. s.n, s.id)
  end
  local rest = s.e + REMAINS - T
  if rest <= 0 then
    redis.call('DEL', key)
  else
    redis.call('HSET', key, 'r', reason)
    -- A minute more than is promised: scripts decide what is gone, this only makes room.
    redis.call('PEXPIRE', key, int(rest + 60000))
  end
  tell_of('ended', s.id, reason)
end

-- When it runs out if it was last used then: a call under way keeps it for longer, a place that has run out does not.
local function idle_from(s, seen)
  local last = redis.call('ZREVRANGE', P .. 'h:' .. s.id, 0, 0, 'WITHSCORES')
  local idle = seen + s.t
  local held = tonumber(last[2] or 0)
  if held > T and held > idle then idle = held end
  return idle
end

local function touch(s, seen)
  s.a = seen
  s.i = idle_from(s, seen)
  redis.call('HSET', P .. 's:' .. s.id, 'a', int(s.a), 'i', int(s.i))
  place(s)
end
`;
