import type { EndReason, RecordBody, SessionRecord } from '../record.ts';
import type { Gone } from '../store.ts';
import type { Reply } from './connection.ts';

export const asList = (reply: Reply | undefined): Reply[] => (Array.isArray(reply) ? reply : []);

export function recordFrom(reply: Reply | undefined): SessionRecord {
  const [body, version, createdAt, ttlMs, endsAt, lastActiveAt, idleAt] = asList(reply) as string[];
  return {
    ...(JSON.parse(body ?? '') as RecordBody),
    version: Number(version),
    ttlSeconds: Number(ttlMs) / 1000,
    createdAt: Number(createdAt),
    lastActiveAt: Number(lastActiveAt),
    endsAt: Number(endsAt),
    expiresAt: Math.min(Number(idleAt), Number(endsAt)),
  };
}

const reasons: ReadonlySet<unknown> = new Set<EndReason>(['ended', 'evicted', 'revoked', 'closed']);

/** A script answers the reason itself where a session is gone. */
export function goneFrom(word: Reply | undefined): Gone | undefined {
  if (word === 'missing' || word === 'expired') return { outcome: word };
  return reasons.has(word) ? { outcome: 'ended', reason: word as EndReason } : undefined;
}
