/**
 * The one script of a request. Numbers are whole microseconds where the pace is kept, and so stay exact. The limits of
 * each scope come as five arguments: calls per minute, burst, concurrent calls, total calls, total bytes.
 */
export const admitScript = `
local id, version, calls, bytes, lease, hold = unpack(ARGV, 2)
calls, bytes = tonumber(calls), tonumber(bytes)
local s = load(id)
local why = gone(s)
if why then return { why } end
if version ~= '' and tonumber(version) ~= s.v then return { 'stale', record(id) } end

local concurrent = calls > 0 and lease ~= ''
local day_ms = 86400000
local accounts = {}
local function account(scope, first, key, places)
  local limits = {}
  for i = 0, 4 do limits[i + 1] = tonumber(ARGV[first + i]) end
  local f = redis.call('HMGET', key, 'q', 'k', 'y', 'o')
  local a = { scope = scope, key = key, places = places, per_minute = limits[1], burst = limits[2] or limits[1],
    concurrent = limits[3], calls_most = limits[4], bytes_most = limits[5],
    pace = tonumber(f[1] or 0), calls = tonumber(f[2] or 0), bytes = tonumber(f[3] or 0), day = 0 }
  if scope ~= 'session' then
    a.day = math.floor(T / day_ms)
    if tonumber(f[4] or 0) ~= a.day then a.calls, a.bytes = 0, 0 end
  end
  accounts[#accounts + 1] = a
end
account('session', 8, P .. 's:' .. id, P .. 'c:' .. id)
if ARGV[23] == '1' then account('user', 13, P .. 'q:u:' .. s.u, P .. 'c:u:' .. s.u) end
if ARGV[24] == '1' and s.w then account('workspace', 18, P .. 'q:w:' .. s.w, P .. 'c:w:' .. s.w) end

local refusal
local function refuse(a, limit, allowed, wait)
  if not refusal or (refusal.wait and (not wait or wait > refusal.wait)) then
    refusal = { scope = a.scope, limit = limit, allowed = allowed, wait = wait }
  end
end
for _, a in ipairs(accounts) do
  local tomorrow = nil
  if a.scope ~= 'session' then tomorrow = day_ms - T % day_ms end
  if a.calls_most and calls > 0 and a.calls + calls > a.calls_most then
    refuse(a, 'totalCalls', a.calls_most, calls <= a.calls_most and tomorrow or nil)
  end
  if a.bytes_most and (calls > 0 or bytes > 0) and (a.bytes >= a.bytes_most or a.bytes + bytes > a.bytes_most) then
    refuse(a, 'totalBytes', a.bytes_most, bytes <= a.bytes_most and tomorrow or nil)
  end
  if a.concurrent and concurrent and redis.call('ZCOUNT', a.places, '(' .. int(T), '+inf') + 1 > a.concurrent then
    refuse(a, 'concurrentCalls', a.concurrent, nil)
  end
  if a.per_minute and calls > 0 then
    local step = math.floor(60000000 / a.per_minute)
    local possible = math.max(a.pace, T * 1000) + calls * step - a.burst * step
    local wait = math.ceil((possible - T * 1000) / 1000)
    if wait > 0 then refuse(a, 'callsPerMinute', a.per_minute, calls <= a.burst and wait or nil) end
  end
end
if refusal then
  return { 'quota', refusal.scope, refusal.limit, refusal.allowed, refusal.wait and int(refusal.wait) or '' }
end

for _, a in ipairs(accounts) do
  if a.per_minute then a.pace = math.max(a.pace, T * 1000) + calls * math.floor(60000000 / a.per_minute) end
  redis.call('HSET', a.key, 'q', int(a.pace), 'k', int(a.calls + calls), 'y', int(a.bytes + bytes))
  if a.scope ~= 'session' then
    redis.call('HSET', a.key, 'o', a.day)
    redis.call('PEXPIRE', a.key, 2 * day_ms)
  end
end
if lease ~= '' then
  local until_ms = int(math.min(T + tonumber(hold), s.e))
  redis.call('ZREMRANGEBYSCORE', P .. 'h:' .. id, '-inf', int(T))
  redis.call('ZADD', P .. 'h:' .. id, until_ms, lease)
  if concurrent then
    local keys = { P .. 'c:' .. id, P .. 'c:u:' .. s.u }
    if s.w then keys[3] = P .. 'c:w:' .. s.w end
    for _, key in ipairs(keys) do
      redis.call('ZREMRANGEBYSCORE', key, '-inf', int(T))
      redis.call('ZADD', key, until_ms, lease)
      redis.call('PEXPIRE', key, 1200000)
    end
  end
end
touch(s)
return { 'admitted', s.v, int(s.a), int(math.min(s.i, s.e)) }
`;

export const renewScript = `
local id, lease, hold = unpack(ARGV, 2)
local s = load(id)
if gone(s) then return 0 end
local held = redis.call('ZSCORE', P .. 'h:' .. id, lease)
if not held or tonumber(held) <= T then return 0 end
local until_ms = int(math.min(T + tonumber(hold), s.e))
redis.call('ZADD', P .. 'h:' .. id, until_ms, lease)
local keys = { P .. 'c:' .. id, P .. 'c:u:' .. s.u }
if s.w then keys[3] = P .. 'c:w:' .. s.w end
for _, key in ipairs(keys) do
  redis.call('ZADD', key, 'XX', until_ms, lease)
  redis.call('PEXPIRE', key, 1200000)
end
touch(s)
return 1
`;

export const releaseScript = `
local id, lease, bytes = unpack(ARGV, 2)
bytes = tonumber(bytes)
local s = load(id)
if gone(s) then return 0 end
local held = redis.call('ZSCORE', P .. 'h:' .. id, lease)
if not held or tonumber(held) <= T then return 0 end
redis.call('ZREM', P .. 'h:' .. id, lease)
redis.call('ZREM', P .. 'c:' .. id, lease)
redis.call('ZREM', P .. 'c:u:' .. s.u, lease)
if s.w then redis.call('ZREM', P .. 'c:w:' .. s.w, lease) end
touch(s)
if bytes == 0 then return 1 end
redis.call('HINCRBY', P .. 's:' .. id, 'y', int(bytes))
local day = math.floor(T / 86400000)
local keys = { P .. 'q:u:' .. s.u }
if s.w then keys[2] = P .. 'q:w:' .. s.w end
for _, key in ipairs(keys) do
  local counted = redis.call('HGET', key, 'o')
  if counted and tonumber(counted) == day then
    redis.call('HINCRBY', key, 'y', int(bytes))
  elseif counted then
    redis.call('HSET', key, 'k', 0, 'y', int(bytes), 'o', day)
  end
end
return 1
`;

export const usageScript = `
local id = ARGV[2]
if gone(load(id)) then return {} end
local f = redis.call('HMGET', P .. 's:' .. id, 'k', 'y')
return { f[1], f[2], redis.call('ZCOUNT', P .. 'c:' .. id, '(' .. int(T), '+inf') }
`;
