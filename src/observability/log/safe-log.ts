import { createHmac, randomBytes } from 'node:crypto';
import type { Log, LogFields } from './log.ts';
import { scrub, shortenIds } from './scrub.ts';

const shortLength = 8;
/** These hold an id, of which a log names no more than its beginning. */
const idFields = new Set(['session', 'correlation', 'transport', 'key']);
const traceId = /^[0-9a-f]{32}$/;
/** Users that everybody has; they tell nothing about anybody. */
const sharedUsers = new Set(['local', 'anonymous']);
/** New with each start: lines of one run can be joined, and nobody can try names against them later. */
const userSecret = randomBytes(32);

/** One word for a user, the same throughout a run, from which the id cannot be told. */
export function opaqueUser(userId: string): string {
  if (sharedUsers.has(userId)) return userId;
  return `u-${createHmac('sha256', userSecret).update(userId).digest('hex').slice(0, shortLength)}`;
}

const safeLogs = new WeakSet<Log>();

/** Whatever is handed to it reaches `log` shortened and scrubbed: no call site has to think of it. */
export function safeLog(log: Log): Log {
  if (safeLogs.has(log)) return log;
  const guarded: Log = {
    info: (event, fields) => log.info(scrubText(event), scrubFields(fields)),
    warn: (event, fields) => log.warn(scrubText(event), scrubFields(fields)),
    ...(log.debug === undefined
      ? {}
      : { debug: (event: string, fields?: LogFields) => log.debug?.(scrubText(event), scrubFields(fields)) }),
  };
  safeLogs.add(guarded);
  return guarded;
}

function scrubFields(fields: LogFields | undefined): LogFields | undefined {
  if (fields === undefined) return undefined;
  const out: Record<string, string | number | boolean> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const field = scrubText(name);
    if (typeof value !== 'string') out[field] = value;
    else if (idFields.has(name)) out[field] = scrub(value).slice(0, shortLength);
    else if (name === 'user') out[field] = opaqueUser(value);
    // Not an id of ours: it is how these lines are found from a trace.
    else if (name === 'trace' && traceId.test(value)) out[field] = value;
    else out[field] = scrubText(value);
  }
  return out;
}

function scrubText(text: string): string {
  return shortenIds(scrub(text));
}
