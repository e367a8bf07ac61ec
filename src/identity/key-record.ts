import { normalizeTrust } from '../rules/trust-level.ts';
import { type Documents, readAllDocuments } from '../stores/documents.ts';
import type { AccessCeiling } from './principal.ts';

export const keyCollection = 'keys';
/** The collection of last uses, apart from the keys, because a use does not change the key. */
const useCollection = 'key-uses';

/** A key as it is stored, without the key itself. */
export interface KeyRecord {
  readonly id: string;
  readonly digest: string;
  /** The secret before the last rotation, and the time until which it is still accepted. */
  readonly previous: { readonly digest: string; readonly until: number } | null;
  readonly userId: string;
  readonly ceiling: AccessCeiling;
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly revokedAt: number | null;
}

type KeyState = 'active' | 'expired' | 'revoked';

/** The public view of a key, without digests. */
export interface KeyView {
  readonly id: string;
  readonly userId: string;
  readonly state: KeyState;
  readonly trustLevel: AccessCeiling['trustLevel'];
  readonly workspaces: readonly string[] | null;
  readonly scopes: readonly string[] | null;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  /** Behind by a minute at most. */
  readonly lastUsedAt: string | null;
  /** The time until which the previous secret is still accepted. */
  readonly previousUntil: string | null;
}

export function findKeyState({ revokedAt, expiresAt }: KeyRecord, now: number): KeyState {
  if (revokedAt !== null) return 'revoked';
  return expiresAt !== null && expiresAt <= now ? 'expired' : 'active';
}

export function toKeyView(record: KeyRecord, lastUsedAt: number | undefined, now: number): KeyView {
  const { id, userId, ceiling, previous } = record;
  const overlaps = previous !== null && previous.until > now;
  return {
    id,
    userId,
    state: findKeyState(record, now),
    ...ceiling,
    createdAt: new Date(record.createdAt).toISOString(),
    expiresAt: toIsoTime(record.expiresAt),
    revokedAt: toIsoTime(record.revokedAt),
    lastUsedAt: toIsoTime(lastUsedAt ?? null),
    previousUntil: overlaps ? toIsoTime(previous.until) : null,
  };
}

export function writeKeyRecord(record: KeyRecord): string {
  return JSON.stringify({ v: 1, ...record });
}

const digestShape = /^[0-9a-f]{64}$/;

/** Parses a stored key; undefined when the text is damaged or belongs to another id. */
export function parseKeyRecord(id: string, text: string): KeyRecord | undefined {
  try {
    const read = JSON.parse(text) as KeyRecord & { readonly v: unknown };
    const { v, digest, previous, userId, ceiling, createdAt, expiresAt, revokedAt } = read;
    const trustLevel = normalizeTrust(ceiling.trustLevel);
    const isWhole =
      v === 1 &&
      read.id === id &&
      digestShape.test(digest) &&
      typeof userId === 'string' &&
      trustLevel !== undefined &&
      [ceiling.workspaces, ceiling.scopes].every(isNameListOrNull) &&
      [expiresAt, revokedAt].every((time) => time === null || Number.isFinite(time)) &&
      (previous === null || (digestShape.test(previous.digest) && Number.isFinite(previous.until)));
    if (!isWhole || !Number.isFinite(createdAt)) return undefined;
    const { workspaces, scopes } = ceiling;
    const bounds = { trustLevel, workspaces, scopes };
    return { id, digest, previous, userId, ceiling: bounds, createdAt, expiresAt, revokedAt };
  } catch {
    return undefined;
  }
}

function isNameListOrNull(value: unknown): boolean {
  return value === null || (Array.isArray(value) && value.every((each) => typeof each === 'string'));
}

function toIsoTime(time: number | null): string | null {
  return time === null ? null : new Date(time).toISOString();
}

/** The last use of each key. It is written at most once a minute per key, and never awaited. */
interface LastUseLog {
  note(id: string): void;
  of(id: string): Promise<number | undefined>;
  all(): Promise<ReadonlyMap<string, number>>;
  forget(id: string): Promise<void>;
}

const noteEveryMs = 60_000;

const maxNoted = 10_000;

export function createLastUseLog(documents: Documents, now: () => number): LastUseLog {
  const noted = new Map<string, number>();

  return {
    note(id) {
      const at = now();
      if (at - (noted.get(id) ?? -Infinity) < noteEveryMs) return;
      noted.delete(id);
      if (noted.size >= maxNoted) noted.delete(noted.keys().next().value as string);
      noted.set(id, at);
      // After a failed write, the next use is written.
      documents.put(useCollection, id, String(at)).catch(() => noted.delete(id));
    },
    async of(id) {
      const found = await documents.get(useCollection, id);
      return found && parseTime(found.text);
    },
    async all() {
      const found = await readAllDocuments(documents, useCollection);
      return new Map(found.flatMap(({ key, text }) => [[key, parseTime(text) ?? 0] as const]));
    },
    async forget(id) {
      noted.delete(id);
      await documents.delete(useCollection, id);
    },
  };
}

function parseTime(text: string): number | undefined {
  const at = Number(text);
  return Number.isSafeInteger(at) ? at : undefined;
}
