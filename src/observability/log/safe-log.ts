import { createHmac, randomBytes } from 'node:crypto';
import type { Log, LogFields } from './log.ts';
import { scrubSecrets, shortenIds } from './scrub.ts';

const shortLength = 8;
/** Fields that hold an id, of which a log shows only the beginning. */
const idFields = new Set(['session', 'correlation', 'transport', 'key']);
const traceId = /^[0-9a-f]{32}$/;
/** User names that every installation has; they identify nobody. */
const sharedUsers = new Set(['local', 'anonymous']);
/** New with each start: lines of one run can be joined, but nobody can test names against them later. */
const userSecret = randomBytes(32);

/** Returns a pseudonym of a user, constant during a run, from which the id cannot be derived. */
export function hideUser(userId: string): string {
  if (sharedUsers.has(userId)) return userId;
  return `u-${createHmac('sha256', userSecret).update(userId).digest('hex').slice(0, shortLength)}`;
}

const safeLogs = new WeakSet<Log>();

/** Wraps a log so that every line is shortened and scrubbed; no caller has to think of it. */
export function createSafeLog(log: Log): Log {
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
  const out: Record<string, string | number | boolean | readonly string[]> = {};
  for (const [name, value] of Object.entries(fields)) {
    if (value === undefined) continue;
    const field = scrubText(name);
    if (isLines(value)) out[field] = value.map(scrubText);
    else if (typeof value !== 'string') out[field] = value;
    else if (idFields.has(name)) out[field] = scrubSecrets(value).slice(0, shortLength);
    else if (name === 'user') out[field] = hideUser(value);
    // A trace id is not ours; it finds these lines from a trace.
    else if (name === 'trace' && traceId.test(value)) out[field] = value;
    else out[field] = scrubText(value);
  }
  return out;
}

/** Narrows a field to lines of text. `Array.isArray` does not narrow readonly arrays. */
export function isLines(value: LogFields[string]): value is readonly string[] {
  return Array.isArray(value);
}

function scrubText(text: string): string {
  return shortenIds(scrubSecrets(text));
}
