/**
 * What renewing and releasing have in common. `hold` and `places` are empty where the place is given back, and
 * `places` too where it stays as it is. Of each scope comes its calls per minute, of user and
 * workspace before it whether calls are given back to them at all.
 */
const settle = `
local id, lease, hold, fewer, bytes, unused, ago, own_pace, user, user_pace, workspace, workspace_pace = unpack(ARGV, 2)
bytes = tonumber(bytes)
local day = math.floor(T / 86400000)
local s = load(id)
if gone(s) then return 0 end
local held = redis.call('ZSCORE', P .. 'h:' .. id, lease)
if not held or tonumber(held) <= T then return 0 end
local places, calls, taken = string.match(redis.call('HGET', P .. 'l:' .. id, lease), '^(%d+) (%d+) (%d+)$')
places, calls, taken = tonumber(places), tonumber(calls), tonumber(taken)
unused = math.min(tonumber(unused), calls)
local member = lease .. ' ' .. int(places)
local keys = { P .. 'c:' .. id, P .. 'c:u:' .. s.u }
if s.w then keys[3] = P .. 'c:w:' .. s.w end

local function give_back(key, named, per_minute, today)
  if unused == 0 then return end
  if named == '1' and today then
    redis.call('HSET', key, 'k', int(math.max(0, tonumber(redis.call('HGET', key, 'k')) - unused)))
  end
  if per_minute ~= '' then
    redis.call('HINCRBY', key, 'q', int(-unused * math.floor(60000000 / tonumber(per_minute))))
  end
end

local function settle(key, named, per_minute)
  local counted = redis.call('HGET', key, 'o')
  if not counted then return end
  if tonumber(counted) ~= day then redis.call('HSET', key, 'k', 0, 'y', 0, 'o', day) end
  if bytes > 0 then redis.call('HINCRBY', key, 'y', int(bytes)) end
  give_back(key, named, per_minute, taken == day)
end

local function settle_all()
  touch(s, math.max(s.a, T - tonumber(ago)))
  if bytes == 0 and unused == 0 then return end
  if bytes > 0 then redis.call('HINCRBY', P .. 's:' .. id, 'y', int(bytes)) end
  give_back(P .. 's:' .. id, '1', own_pace, true)
  settle(P .. 'q:u:' .. s.u, user, user_pace)
  if s.w then settle(P .. 'q:w:' .. s.w, workspace, workspace_pace) end
end
`;

export const renewScript = `${settle}
local until_ms = int(math.min(T + tonumber(hold), s.e))
local left = math.min(places, tonumber(fewer) or places)
redis.call('ZADD', P .. 'h:' .. id, until_ms, lease)
redis.call('HSET', P .. 'l:' .. id, lease, int(left) .. ' ' .. int(calls - unused) .. ' ' .. int(taken))
for _, key in ipairs(keys) do
  if left ~= places then redis.call('ZREM', key, member) end
  if left > 0 then
    redis.call('ZADD', key, until_ms, lease .. ' ' .. int(left))
    redis.call('PEXPIRE', key, 1200000)
  end
end
settle_all()
return 1
`;

export const releaseScript = `${settle}
redis.call('ZREM', P .. 'h:' .. id, lease)
redis.call('HDEL', P .. 'l:' .. id, lease)
for _, key in ipairs(keys) do redis.call('ZREM', key, member) end
settle_all()
return 1
`;
