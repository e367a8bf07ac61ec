import { createHmac, randomBytes } from 'node:crypto';
import type { Log, LogFields } from './log.ts';
import { redactedText, scrubSecrets, shortenIds } from './scrub.ts';

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

const mail = /[\p{L}\p{N}._%+-]{1,64}@[\p{L}\p{N}-]{1,63}(?:\.[\p{L}\p{N}-]{1,63}){1,8}/u;
/** An international number, or one written in groups; digits alone are mostly a count or a date. */
const phone =
  /(?<![\w.])(?:\+\d(?:[ ()./-]{0,2}\d){6,14}|\(?0\d{1,4}\)?[ /-]\d(?:[ /-]?\d){4,10}|\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4})(?!\w)/;
const secretName = /pass|pwd|secret|token|api.?key|private.?key|auth|credential|cookie/i;
const maxMetadataLength = 128;
const maxMetadataKeys = 32;

/** Replaces mail addresses in text from outside. Other personal data cannot be told from numbers and names. */
export function hideMailAddresses(text: string): string {
  return text.replace(new RegExp(mail, 'gu'), '[personal: mail address]');
}

export function detectPersonalData(text: string): 'mail address' | 'phone number' | undefined {
  if (mail.test(text)) return 'mail address';
  return phone.test(text) ? 'phone number' : undefined;
}

/**
 * Converts a session's metadata to fields of a log line. Personal data is replaced by its kind, secrets by a mark.
 * Metadata comes from the orchestrator, so its content is unknown.
 */
export function createMetadataFields(metadata: Readonly<Record<string, unknown>>): LogFields {
  const fields: Record<string, string | number> = {};
  const entries = Object.entries(metadata);
  for (const [key, value] of entries.slice(0, maxMetadataKeys)) {
    const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
    fields[`metadata.${hidePersonal(key)}`] = secretName.test(key) ? redactedText : hidePersonal(text);
  }
  if (entries.length > maxMetadataKeys) fields['metadata.more'] = entries.length - maxMetadataKeys;
  return fields;
}

function hidePersonal(text: string): string {
  // Checked before the text is cut: half an address is still personal.
  const kind = detectPersonalData(text);
  if (kind !== undefined) return `[personal: ${kind}]`;
  const clean = scrubSecrets(text);
  return clean.length > maxMetadataLength ? `${clean.slice(0, maxMetadataLength)}…` : clean;
}
