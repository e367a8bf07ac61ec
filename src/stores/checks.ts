import { AmbitError } from '../errors.ts';
import type { Admission, Limits, Spent } from './admission.ts';
import type { AtVersion, DocumentLimits, DocumentListOptions, PutOptions } from './documents.ts';
import { type MessageLimits, type MessageListOptions, maxMessageBytes, type NewMessage } from './inbox.ts';
import { type JsonValue, type NewSession, type SessionChange, toBody } from './record.ts';
import type { SetOptions, StateListOptions } from './state.ts';
import type { Caps, PageRequest, SessionFilter, StateLimits } from './store.ts';

/** The most bytes of the task of a session. */
export const maxTaskBytes = 4096;

/** Checks that all stores share. Half a surrogate pair cannot be stored, and would make two different names equal. */
const idPattern = /^[a-z0-9][a-z0-9-]{0,127}$/;
const collectionPattern = /^[a-z][a-z0-9-]{0,63}$/;
const brokenText = /\p{Surrogate}|\u0000/u;
const max = {
  text: 512,
  key: 256,
  mark: 4096,
  holdMs: 600_000,
  calls: 1_000_000,
  page: 1000,
  ttlSeconds: 31_536_000,
};

export function checkId(id: string): void {
  if (typeof id !== 'string' || !idPattern.test(id))
    refuseRequest('A session id must have 1 to 128 characters of a-z, 0-9 and "-".');
}

export function checkNew(session: NewSession, caps: Caps): void {
  checkId(session.id);
  if (session.parentId !== null) checkId(session.parentId);
  for (const [field, value] of Object.entries(toBody(session))) {
    if (typeof value === 'string') {
      checkText(field === 'userId' ? 'user' : field, value, field === 'task' ? maxTaskBytes : max.text);
    }
  }
  checkCount('ttlSeconds', session.ttlSeconds, 1, max.ttlSeconds);
  checkCount('lifetimeSeconds', session.lifetimeSeconds, 1, max.ttlSeconds);
  checkCount('caps.perUser', caps.perUser, 1);
  checkCount('caps.perParent', caps.perParent, 1);
  checkCount('caps.inAll', caps.inAll, 1);
}

export function checkChange(expectedVersion: number, change: SessionChange): void {
  checkCount('version', expectedVersion, 1);
  checkCount('ttlSeconds', change.ttlSeconds, 1, max.ttlSeconds);
  checkCount('endsAt', change.endsAt, 0);
}

export function checkFilter(filter: SessionFilter): void {
  for (const value of Object.values(filter)) if (value !== undefined) checkText('filter', value);
}

/** Reads where a page begins, as a time and an id, and how many sessions it may hold. */
export function readCursor(page: PageRequest): { readonly at: number; readonly id: string; readonly limit: number } {
  const { after, limit = 100 } = page;
  checkCount('limit', limit, 1, max.page);
  if (after === undefined) return { at: -1, id: '', limit };
  const match = /^(\d{1,16})\.([a-z0-9-]+)$/.exec(after);
  if (match === null) return refuseRequest('The page cursor is not valid.');
  return { at: Number(match[1]), id: match[2] as string, limit };
}

export function writeCursor(record: { readonly createdAt: number; readonly id: string }): string {
  return `${record.createdAt}.${record.id}`;
}

export function checkAdmission(request: Admission): void {
  checkId(request.id);
  checkCount('version', request.version, 1);
  checkCount('calls', request.calls, 0, max.calls);
  checkCount('bytes', request.bytes, 0);
  checkCount('holdMs', request.holdMs, 1, max.holdMs);
  checkCount('places', request.places, 0, max.calls);
  if (request.places !== undefined && request.holdMs === undefined) refuseRequest('Places need holdMs.');
  checkLimits(request.limits);
}

function checkLimits(limits: Admission['limits'] = {}): void {
  for (const each of Object.values(limits)) checkScopeLimits(each);
}

function checkScopeLimits(limits: Limits): void {
  for (const [name, value] of Object.entries(limits)) checkCount(`limits.${name}`, value, 1);
  checkCount('limits.callsPerMinute', limits.callsPerMinute, 1, 60_000_000);
  checkCount('limits.burst', limits.burst, 1, 60_000_000);
  if (limits.burst !== undefined && limits.callsPerMinute === undefined)
    refuseRequest('A burst needs calls per minute.');
}

/** Checks a renewal, or a release when `holdMs` is absent. */
export function checkLease(id: string, lease: string, spent: Spent, holdMs?: number): void {
  checkId(id);
  checkText('lease', lease);
  checkCount('holdMs', holdMs, 1, max.holdMs);
  checkCount('bytes', spent.bytes, 0);
  checkCount('unusedCalls', spent.unusedCalls, 0, max.calls);
  checkCount('places', spent.places, 0, max.calls);
  if (spent.places !== undefined && holdMs === undefined) refuseRequest('A place that is given back has no places.');
  checkCount('agoMs', spent.agoMs, 0);
  checkLimits(spent.limits);
}

export function checkKey(id: string, key: string): void {
  checkId(id);
  checkText('key', key, max.key);
}

/** Returns the value as JSON text, or the limit it exceeds. */
export function readStateValue(
  value: JsonValue,
  options: SetOptions,
  limits: StateLimits,
): { readonly text: string } | { readonly limit: 'valueBytes' } {
  checkCount('expectedVersion', options.expectedVersion, 0);
  checkCount('ttlMs', options.ttlMs, 1, max.ttlSeconds * 1000);
  const text = JSON.stringify(value);
  if (text === undefined) return refuseRequest('The value cannot be written as JSON.');
  return Buffer.byteLength(text) > limits.valueBytes ? { limit: 'valueBytes' } : { text };
}

export function checkStateList(id: string, options: StateListOptions): void {
  checkId(id);
  checkCount('limit', options.limit, 1, max.page);
}

export function checkMark(id: string, key: string, value: string): void {
  checkKey(id, key);
  if (value !== '') checkText('mark', value, max.mark);
}

export function checkMessage({ from, to, text }: NewMessage, limits: MessageLimits): void {
  if (from !== null) checkId(from);
  checkId(to);
  checkText('message', text, maxMessageBytes);
  checkCount('perMinute', limits.perMinute, 1, 60_000);
  checkCount('messages', limits.messages, 1);
  checkCount('bytes', limits.bytes, 1);
}

export function checkMessageList(id: string, { after, limit }: MessageListOptions): void {
  checkId(id);
  checkCount('after', after, 0);
  checkCount('limit', limit, 1, max.page);
}

/** Tells whether a write expects another version than the current one. */
export function isConflict({ expectedVersion }: AtVersion, version: number): boolean {
  return expectedVersion !== undefined && expectedVersion !== version;
}

export function checkDocument(collection: string, key: string, options: PutOptions = {}): void {
  checkCollection(collection);
  checkCount('maxDocuments', options.maxDocuments, 1);
  checkCount('maxBytes', options.maxBytes, 1);
  checkText('key', key);
  checkCount('expectedVersion', options.expectedVersion, 0);
}

/** Tells whether a text is within its limit. Throws for a text that no store could return unchanged. */
export function fitsDocument(text: string, limits: DocumentLimits): boolean {
  if (typeof text !== 'string' || brokenText.test(text)) refuseRequest('A document is well-formed text without NUL.');
  return Buffer.byteLength(text) <= limits.textBytes;
}

export function checkDocumentList(collection: string, options: DocumentListOptions): void {
  checkCollection(collection);
  checkCount('limit', options.limit, 1, max.page);
  for (const text of [options.prefix, options.after]) {
    if (text !== undefined && text !== '') checkText('key', text);
  }
}

function checkCollection(collection: string): void {
  if (typeof collection !== 'string' || !collectionPattern.test(collection))
    refuseRequest('A collection is named by 1 to 64 characters of a-z, 0-9 and "-", a letter first.');
}

export function countEntryBytes(key: string, text: string): number {
  return Buffer.byteLength(key) + Buffer.byteLength(text);
}

function checkCount(what: string, value: number | undefined, from: number, to = Number.MAX_SAFE_INTEGER): void {
  if (value === undefined || (Number.isSafeInteger(value) && value >= from && value <= to)) return;
  refuseRequest(`${what} must be a whole number from ${from} to ${to}.`);
}

function checkText(what: string, value: string, maxBytes = max.text): void {
  if (typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= maxBytes && !brokenText.test(value))
    return;
  refuseRequest(`The ${what} must be 1 to ${maxBytes} bytes of well-formed text without NUL.`);
}

function refuseRequest(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
