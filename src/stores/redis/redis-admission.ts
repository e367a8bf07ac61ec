import {
  type Admission,
  type HeldLease,
  type LimitName,
  type Limits,
  type Scope,
  type Spent,
  scopes,
} from '../admission.ts';
import { checkAdmission, checkId, checkLease } from '../checks.ts';
import { createLeaseId, readCost } from '../quota.ts';
import type { SessionStore } from '../store.ts';
import { parseGone, parseRecord, prepareScript, type RedisConnection, toList } from './connection.ts';

/** Sums the calls of the leases of a session, user or workspace that have not run out. */
const underWayFunction = `
local function under_way(key)
  local sum = 0
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. int(T), '+inf')) do
    sum = sum + tonumber(string.match(member, ' (%d+)$'))
  end
  return sum
end
`;

/** The keys of the calls under way that a lease counts in. The calls of a child count with its parent. */
const countedInFunction = `
local function counted_in(s)
  local keys = { P .. 'c:' .. s.id }
  if not s.p then keys[#keys + 1] = P .. 'c:u:' .. s.u end
  if s.cw then keys[#keys + 1] = P .. 'c:w:' .. s.cw end
  return keys
end
`;

/**
 * The script of every request. The pace is kept in whole microseconds, so that it stays exact. The limits of each scope
 * are five arguments: calls per minute, burst, concurrent calls, total calls, total bytes.
 */
const admitScript = prepareScript(`${underWayFunction}${countedInFunction}
local id, version, calls, bytes, lease, hold, places = unpack(ARGV, 2)
calls, bytes, places = tonumber(calls), tonumber(bytes), tonumber(places)
local s = load(id)
local why = gone(s)
if why then return { why } end
if version ~= '' and tonumber(version) ~= s.v then return { 'stale', record(id) } end

local day_ms = 86400000
local accounts = {}
local function account(scope, first, key, held)
  local limits = {}
  for i = 0, 4 do limits[i + 1] = tonumber(ARGV[first + i]) end
  local f = redis.call('HMGET', key, 'q', 'k', 'y', 'o')
  local a = { scope = scope, key = key, held = held, per_minute = limits[1], burst = limits[2] or limits[1],
    concurrent = limits[3], calls_most = limits[4], bytes_most = limits[5],
    pace = tonumber(f[1] or 0), calls = tonumber(f[2] or 0), bytes = tonumber(f[3] or 0), day = 0 }
  if scope ~= 'session' then
    a.day = math.floor(T / day_ms)
    if tonumber(f[4] or 0) ~= a.day then a.calls, a.bytes = 0, 0 end
  end
  accounts[#accounts + 1] = a
end
account('session', 9, P .. 's:' .. id, P .. 'c:' .. id)
if ARGV[24] == '1' and not s.p then account('user', 14, P .. 'q:u:' .. s.u, P .. 'c:u:' .. s.u) end
if ARGV[25] == '1' and s.cw then account('workspace', 19, P .. 'q:w:' .. s.cw, P .. 'c:w:' .. s.cw) end

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
  if a.concurrent and places > 0 and under_way(a.held) + places > a.concurrent then
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
  for _, old in ipairs(redis.call('ZRANGEBYSCORE', P .. 'h:' .. id, '-inf', int(T))) do
    redis.call('ZREM', P .. 'h:' .. id, old)
    redis.call('HDEL', P .. 'l:' .. id, old)
  end
  redis.call('ZADD', P .. 'h:' .. id, until_ms, lease)
  redis.call('HSET', P .. 'l:' .. id, lease, int(places) .. ' ' .. int(calls) .. ' ' .. int(math.floor(T / day_ms)))
  if places > 0 then
    local keys = counted_in(s)
    for _, key in ipairs(keys) do
      redis.call('ZREMRANGEBYSCORE', key, '-inf', int(T))
      redis.call('ZADD', key, until_ms, lease .. ' ' .. int(places))
      redis.call('PEXPIRE', key, 1200000)
    end
  end
end
touch(s, T)
return { 'admitted', s.v, int(s.a), int(math.min(s.i, s.e)) }
`);

const usageScript = prepareScript(`${underWayFunction}
local id = ARGV[2]
if gone(load(id)) then return {} end
local f = redis.call('HMGET', P .. 's:' .. id, 'k', 'y', 'q')
local children = 0
for _, child in ipairs(redis.call('ZRANGE', P .. 'by:p:' .. id, 0, -1)) do
  if not gone(load(child)) then children = children + 1 end
end
local ahead = math.max(0, math.ceil(tonumber(f[3] or 0) / 1000) - T)
local leases = {}
for _, lease in ipairs(redis.call('ZRANGEBYSCORE', P .. 'h:' .. id, '(' .. int(T), '+inf')) do
  leases[#leases + 1] = lease .. ' ' .. redis.call('HGET', P .. 'l:' .. id, lease)
end
return { f[1], f[2], int(under_way(P .. 'c:' .. id)), int(ahead), children, leases }
`);

/**
 * Functions that renewing and releasing share. `hold` and `places` are empty for a release; `places` is also empty
 * where it stays as it is, and `unused` where nothing is said about the calls. Each scope has an argument with its calls per minute; user and workspace have one before it
 * that says whether calls are returned to them.
 */
const settleFunctions = `${countedInFunction}
local id, lease, hold, fewer, bytes, unused, ago, own_pace, user, user_pace, workspace, workspace_pace = unpack(ARGV, 2)
bytes = tonumber(bytes)
local day = math.floor(T / 86400000)
local s = load(id)
if gone(s) then return 0 end
local held = redis.call('ZSCORE', P .. 'h:' .. id, lease)
if not held or tonumber(held) <= T then return 0 end
local places, calls, taken = string.match(redis.call('HGET', P .. 'l:' .. id, lease), '^(%d+) (%d+) (%d+)$')
places, calls, taken = tonumber(places), tonumber(calls), tonumber(taken)
local open = calls
if unused ~= '' then open = 0 end
unused = math.min(tonumber(unused) or 0, calls)
local member = lease .. ' ' .. int(places)
local keys = counted_in(s)

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
  if not s.p then settle(P .. 'q:u:' .. s.u, user, user_pace) end
  if s.cw then settle(P .. 'q:w:' .. s.cw, workspace, workspace_pace) end
end
`;

const renewScript = prepareScript(`${settleFunctions}
local until_ms = int(math.min(T + tonumber(hold), s.e))
local left = math.min(places, tonumber(fewer) or places)
redis.call('ZADD', P .. 'h:' .. id, until_ms, lease)
redis.call('HSET', P .. 'l:' .. id, lease, int(left) .. ' ' .. int(open) .. ' ' .. int(taken))
for _, key in ipairs(keys) do
  if left ~= places then redis.call('ZREM', key, member) end
  if left > 0 then
    redis.call('ZADD', key, until_ms, lease .. ' ' .. int(left))
    redis.call('PEXPIRE', key, 1200000)
  end
end
settle_all()
return 1
`);

const releaseScript = prepareScript(`${settleFunctions}
redis.call('ZREM', P .. 'h:' .. id, lease)
redis.call('HDEL', P .. 'l:' .. id, lease)
for _, key in ipairs(keys) do redis.call('ZREM', key, member) end
settle_all()
return 1
`);

type RedisAdmission = Pick<SessionStore, 'admit' | 'renew' | 'release' | 'usage'>;

export function createRedisAdmission(connection: RedisConnection): RedisAdmission {
  return {
    async admit(request) {
      checkAdmission(request);
      const lease = createLeaseId();
      const reply = toList(await connection.run(admitScript, ...listAdmissionValues(request, lease)));
      const [status] = reply;
      const gone = parseGone(status);
      if (gone !== undefined) return gone;
      if (status === 'stale') return { outcome: 'stale', record: parseRecord(reply[1]) };
      if (status === 'quota') {
        const [, scope, limit, allowed, wait] = reply as [string, Scope, LimitName, number, string];
        const retryAfterMs = wait === '' ? null : Number(wait);
        return { outcome: 'quota', scope, limit, allowed: Number(allowed), retryAfterMs };
      }
      const [, version, lastActiveAt, expiresAt] = reply.map(Number);
      return {
        outcome: 'admitted',
        version: version as number,
        lastActiveAt: lastActiveAt as number,
        expiresAt: expiresAt as number,
        lease: request.holdMs === undefined ? null : lease,
      };
    },

    async renew(id, lease, holdMs, spent = {}) {
      checkLease(id, lease, spent, holdMs);
      return (
        (await connection.run(renewScript, id, lease, holdMs, spent.places ?? '', ...listSpentValues(spent))) === 1
      );
    },

    async release(id, lease, spent = {}) {
      checkLease(id, lease, spent);
      await connection.run(releaseScript, id, lease, '', '', ...listSpentValues(spent));
    },

    async usage(id) {
      checkId(id);
      const [calls, bytes, underWay, aheadMs, children, held] = toList(await connection.run(usageScript, id));
      if (calls === undefined) return undefined;
      const leases = toList(held).map((each) => parseHeldLease(String(each)));
      return {
        calls: Number(calls),
        bytes: Number(bytes),
        underWay: Number(underWay),
        aheadMs: Number(aheadMs),
        children: Number(children),
        leases: leases.filter((lease) => lease.calls + lease.places > 0),
      };
    },
  };
}

function listAdmissionValues(request: Admission, lease: string): (string | number)[] {
  const { id, version = '', holdMs, limits = {} } = request;
  const { calls, bytes, places } = readCost(request);
  const counted = [limits.user, limits.workspace].map((each) => (each === undefined ? '0' : '1'));
  const place = holdMs === undefined ? ['', '', 0] : [lease, holdMs, places];
  return [
    id,
    version,
    calls,
    bytes,
    ...place,
    ...scopes.flatMap((scope) => listLimitValues(limits[scope])),
    ...counted,
  ];
}

function listLimitValues(limits: Limits = {}): (string | number)[] {
  const { callsPerMinute, burst, concurrentCalls, totalCalls, totalBytes } = limits;
  return [callsPerMinute, burst, concurrentCalls, totalCalls, totalBytes].map((value) => value ?? '');
}

function parseHeldLease(text: string): HeldLease {
  const [lease = '', places, calls] = text.split(' ');
  return { lease, calls: Number(calls), places: Number(places) };
}

function listSpentValues({ bytes = 0, unusedCalls, agoMs = 0, limits = {} }: Spent): (string | number)[] {
  const { session, user, workspace } = limits;
  const shared = [user, workspace].flatMap((each) => [each === undefined ? '0' : '1', each?.callsPerMinute ?? '']);
  return [bytes, unusedCalls ?? '', agoMs, session?.callsPerMinute ?? '', ...shared];
}
