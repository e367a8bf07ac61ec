import { checkMessage, checkMessageList } from '../checks.ts';
import { type MessageSent, maxMessagePageBytes, type SessionInboxes } from '../inbox.ts';
import { parseGone, prepareScript, type RedisConnection, toList } from './connection.ts';

/** A message of the operator has an empty sender. Numbers without gaps, since only the oldest messages are deleted: `mf` is the last deleted one, `mn` the last one. */
const sendScript = prepareScript(`
local from, to, text, per_minute, most, most_bytes = unpack(ARGV, 2)
local has_sender = from ~= ''
if has_sender and gone(load(from)) then return { 'sender-gone' } end
local s = load(to)
local why = gone(s)
if why then return { why } end
local pace
if has_sender then
  local step = math.floor(60000000 / tonumber(per_minute))
  pace = math.max(tonumber(redis.call('HGET', P .. 's:' .. from, 'mq') or 0), T * 1000) + step
  local wait = math.ceil((pace - tonumber(per_minute) * step - T * 1000) / 1000)
  if wait > 0 then return { 'paced', int(wait) } end
end
local f = redis.call('HMGET', P .. 's:' .. to, 'mf', 'mn', 'mb')
local first, last, bytes = tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0)
if last - first >= tonumber(most) then return { 'full', 'messages' } end
if bytes + #text > tonumber(most_bytes) then return { 'full', 'bytes' } end
if pace then redis.call('HSET', P .. 's:' .. from, 'mq', int(pace)) end
redis.call('HSET', P .. 's:' .. to, 'mn', int(last + 1), 'mb', int(bytes + #text))
redis.call('HSET', P .. 'i:' .. to, int(last + 1), text)
tell_of('message', to, int(last + 1))
return { 'sent', int(last + 1) }
`);

const listScript = prepareScript(`
local id, after, limit, most = unpack(ARGV, 2)
if gone(load(id)) then return {} end
local f = redis.call('HMGET', P .. 's:' .. id, 'mf', 'mn')
local number, last = math.max(tonumber(after), tonumber(f[1] or 0)) + 1, tonumber(f[2] or 0)
local found, bytes = {}, 0
while number <= last and #found < 2 * tonumber(limit) and bytes < tonumber(most) do
  local text = redis.call('HGET', P .. 'i:' .. id, int(number))
  found[#found + 1] = int(number)
  found[#found + 1] = text
  bytes = bytes + #text
  number = number + 1
end
return found
`);

const acknowledgeScript = prepareScript(`
local id, up_to = unpack(ARGV, 2)
if gone(load(id)) then return 0 end
local f = redis.call('HMGET', P .. 's:' .. id, 'mf', 'mn', 'mb')
local first, last, bytes = tonumber(f[1] or 0), tonumber(f[2] or 0), tonumber(f[3] or 0)
up_to = math.min(tonumber(up_to), last)
if up_to <= first then return 0 end
for number = first + 1, up_to do
  bytes = bytes - redis.call('HSTRLEN', P .. 'i:' .. id, int(number))
  redis.call('HDEL', P .. 'i:' .. id, int(number))
end
redis.call('HSET', P .. 's:' .. id, 'mf', int(up_to), 'mb', int(bytes))
return up_to - first
`);

/** Publishes `origin` with every message, so that this store recognises its own. */
export function createRedisInboxes(connection: RedisConnection, origin: string): SessionInboxes {
  return {
    async send(message, limits) {
      checkMessage(message, limits);
      const { from, to, text } = message;
      const { perMinute, messages, bytes } = limits;
      const reply = await connection.run(sendScript, from ?? '', to, text, perMinute, messages, bytes, origin);
      const [status, detail] = toList(reply);
      const gone = parseGone(status);
      if (gone !== undefined) return gone;
      if (status === 'paced') return { outcome: 'paced', retryAfterMs: Number(detail) };
      if (status === 'full') return { outcome: 'full', limit: detail as 'messages' | 'bytes' };
      return status === 'sent' ? { outcome: 'sent', number: Number(detail) } : ({ outcome: status } as MessageSent);
    },

    async list(id, options = {}) {
      checkMessageList(id, options);
      const { after = 0, limit = 100 } = options;
      const found = toList(await connection.run(listScript, id, after, limit, maxMessagePageBytes)) as string[];
      return Array.from({ length: found.length / 2 }, (_, index) => ({
        number: Number(found[2 * index]),
        text: found[2 * index + 1] as string,
      }));
    },

    async acknowledge(id, upTo) {
      checkMessageList(id, { after: upTo });
      return Number(await connection.run(acknowledgeScript, id, upTo));
    },
  };
}
