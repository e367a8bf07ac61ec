import { findClosest } from '../config/explain/suggest.ts';
import type { Config } from '../config/schema/schema.ts';
import { findLookAlikes, mayContainLookAlike } from '../context/for-models/mark-forged-blocks.ts';
import { AmbitError } from '../errors.ts';
import { userNamePattern } from '../lib/text/name-patterns.ts';
import { maxPermissions, permissionPattern } from '../rules/session-base.ts';
import { normalizeTrust, type TrustLevel } from '../rules/trust-level.ts';
import { maxTaskBytes } from '../stores/checks.ts';
import { isSuppliedId, type SessionDraft } from './session.ts';
import { limitsSchema } from './session-schema.ts';

const metadataKeyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const namePattern = /^[A-Za-z0-9][A-Za-z0-9._#:@/-]{0,99}$/;
const maxServers = 1000;

/** Checks the members of a draft that need nothing else to be checked, and returns its permissions, each once. */
export function checkDraft(
  draft: SessionDraft,
  limits: Pick<Config['sessions'], 'maxLifetimeSeconds' | 'metadataBytes'>,
): { readonly permissions: readonly string[] } {
  if (draft.id !== undefined && !isSuppliedId(draft.id))
    throw new AmbitError('REQUEST_INVALID', { what: 'A session id has 8 to 64 characters of a-z, 0-9 and "-".' });
  assertPattern('name', draft.name, namePattern);
  if (draft.name === 'current')
    throw new AmbitError('REQUEST_INVALID', { what: '"current" means the session of a call and cannot be a name.' });
  assertPattern('user', draft.userId, userNamePattern);
  assertPattern('agent', draft.agentId, userNamePattern);
  assertNoImitation('name', `${draft.name} ${draft.agentId}`, 0);
  assertTtl(draft.ttlSeconds, limits.maxLifetimeSeconds);
  assertTask(draft.task);
  assertQuotas(draft.quotas);
  checkMetadata(draft.metadata, limits.metadataBytes);
  return { permissions: checkPermissions(draft.permissions ?? []) };
}

function assertPattern(what: string, value: unknown, pattern: RegExp): void {
  if (value === undefined || (typeof value === 'string' && pattern.test(value))) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ${what} is not valid: it must be short, start with a letter or digit, and contain no spaces.`,
  });
}

/** Refuses texts that imitate the context block more than `max` times: results with very many of them are withheld. */
export function assertNoImitation(what: string, text: string, max = 1): void {
  if (!mayContainLookAlike(text, false) || findLookAlikes(text, max + 1).length <= max) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ${what} imitates the context block of Ambit.`,
    hint: 'Describe the block in other words.',
  });
}

function assertTask(task: unknown): void {
  if (task === undefined) return;
  const isGood = typeof task === 'string' && task !== '' && Buffer.byteLength(task) <= maxTaskBytes;
  if (!isGood || /\p{Surrogate}|\u0000/u.test(task))
    throw new AmbitError('REQUEST_INVALID', { what: `The task must be a text of 1 to ${maxTaskBytes} bytes.` });
  assertNoImitation('task', task);
}

function assertQuotas(quotas: unknown): void {
  const read = limitsSchema.optional().safeParse(quotas);
  const { callsPerMinute, burst } = read.data ?? {};
  if (read.success && (burst === undefined || callsPerMinute !== undefined)) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: 'The quotas are not valid: use whole numbers from 1 for callsPerMinute, burst (with callsPerMinute), concurrentCalls, totalCalls and totalBytes.',
  });
}

function assertTtl(ttl: number | undefined, maxSeconds: number): void {
  if (ttl === undefined || (Number.isInteger(ttl) && ttl >= 1 && ttl <= maxSeconds)) return;
  throw new AmbitError('REQUEST_INVALID', {
    what: `The ttl must be a whole number of seconds from 1 to ${maxSeconds}.`,
  });
}

/** Returns the trust level of any accepted spelling. An unknown one is refused, never replaced. */
export function checkTrust(value: unknown): TrustLevel {
  const trustLevel = normalizeTrust(value);
  if (trustLevel !== undefined) return trustLevel;
  throw new AmbitError('REQUEST_INVALID', {
    what: `"${String(value).slice(0, 60)}" is not a trust level; use "direct" or "sandboxed".`,
  });
}

/** The servers a session is limited to, each once. An unknown name is refused: it would limit nothing. */
export function checkServers(names: readonly string[], config: Config, known: readonly string[] = []): string[] {
  if (names.length > maxServers)
    throw new AmbitError('REQUEST_INVALID', { what: `At most ${maxServers} servers can be named.` });
  for (const name of names) {
    if (known.includes(name) || Object.hasOwn(config.servers, name)) continue;
    const meant = findClosest(name, Object.keys(config.servers));
    throw new AmbitError('REQUEST_INVALID', {
      what: `There is no server "${name.slice(0, 60)}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
      hint: 'List the servers with "ambit server list".',
    });
  }
  return [...new Set(names)];
}

/** The permissions of a session, each once. */
export function checkPermissions(names: readonly string[]): string[] {
  if (!Array.isArray(names)) throw new AmbitError('REQUEST_INVALID', { what: 'The permissions must be a list.' });
  if (names.length > maxPermissions) {
    throw new AmbitError('REQUEST_INVALID', { what: `A session has at most ${maxPermissions} permissions.` });
  }
  const wrong = names.find((name) => typeof name !== 'string' || !permissionPattern.test(name));
  if (wrong === undefined) return [...new Set(names)];
  throw new AmbitError('REQUEST_INVALID', {
    what: `"${String(wrong).slice(0, 60)}" is not a valid permission: it has up to 128 characters of a-z, 0-9 and ":._*-".`,
    hint: 'Write permissions like "notes:write".',
  });
}

export function checkMetadata(metadata: SessionDraft['metadata'], maxBytes: number): void {
  if (metadata === undefined) return;
  const odd = Object.keys(metadata).find((key) => !metadataKeyPattern.test(key));
  if (odd !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${odd.slice(0, 64)}" is not a valid metadata key; use up to 64 letters, digits, ".", "_" and "-".`,
    });
  }
  const bytes = Buffer.byteLength(JSON.stringify(metadata));
  if (bytes <= maxBytes) return;
  throw new AmbitError('METADATA_TOO_LARGE', { what: `The metadata has ${bytes} bytes; ${maxBytes} are allowed.` });
}
