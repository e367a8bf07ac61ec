import { checkKey, checkMark, checkStateList, countEntryBytes, isConflict, readStateValue } from '../checks.ts';
import { cutKeyPage, maxMarks, type SessionMarks, type SessionStateStore } from '../state.ts';
import type { StateLimits } from '../store.ts';
import type { MemorySession, MemorySessions, MemoryStateEntry } from './memory-sessions.ts';

type LiveSessionLookup = Pick<MemorySessions, 'findLive'> & { now(): number };

export interface MemoryStateOptions {
  readonly limits: StateLimits;
  entriesOf(held: MemorySession): Map<string, MemoryStateEntry>;
  onWritten?(id: string): void;
}

export function createMemoryState(sessions: LiveSessionLookup, options: MemoryStateOptions): SessionStateStore {
  const { limits, entriesOf, onWritten } = options;
  function readFreshEntries(held: MemorySession): Map<string, MemoryStateEntry> {
    const now = sessions.now();
    const entries = entriesOf(held);
    for (const [key, entry] of entries) {
      if (entry.expiresAt !== null && now >= entry.expiresAt) entries.delete(key);
    }
    return entries;
  }

  return {
    async get(id, key) {
      checkKey(id, key);
      const held = sessions.findLive(id);
      const entry = 'outcome' in held ? undefined : readFreshEntries(held).get(key);
      if (entry === undefined) return undefined;
      const { text, version, bytes, expiresAt } = entry;
      return { key, value: JSON.parse(text), version, bytes, expiresAt };
    },

    async set(id, key, value, setOptions = {}) {
      checkKey(id, key);
      const read = readStateValue(value, setOptions, limits);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const all = readFreshEntries(held);
      const before = all.get(key);
      const version = before?.version ?? 0;
      if (isConflict(setOptions, version)) return { outcome: 'conflict', version };
      if ('limit' in read) return { outcome: 'full', limit: read.limit };
      if (before === undefined && all.size >= limits.keys) return { outcome: 'full', limit: 'keys' };
      const bytes = countEntryBytes(key, read.text);
      let total = bytes - (before?.bytes ?? 0);
      for (const entry of all.values()) total += entry.bytes;
      if (total > limits.totalBytes) return { outcome: 'full', limit: 'totalBytes' };
      const expiresAt = setOptions.ttlMs === undefined ? null : sessions.now() + setOptions.ttlMs;
      held.stateVersion++;
      all.set(key, { text: read.text, bytes, version: held.stateVersion, expiresAt });
      onWritten?.(id);
      return { outcome: 'written', version: held.stateVersion };
    },

    async list(id, listOptions = {}) {
      checkStateList(id, listOptions);
      const held = sessions.findLive(id);
      if ('outcome' in held) return { keys: [], next: null };
      const keys = [...readFreshEntries(held)].map(([key, { version, bytes, expiresAt }]) => ({
        key,
        version,
        bytes,
        expiresAt,
      }));
      return cutKeyPage(keys, listOptions);
    },

    async delete(id, key, deleteOptions = {}) {
      checkKey(id, key);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const version = readFreshEntries(held).get(key)?.version ?? 0;
      if (isConflict(deleteOptions, version)) return { outcome: 'conflict', version };
      return { outcome: entriesOf(held).delete(key) ? 'deleted' : 'absent' };
    },
  };
}

export function createMemoryMarks(sessions: LiveSessionLookup): SessionMarks {
  return {
    async put(id, key, value = '') {
      checkMark(id, key, value);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const present = held.marks.get(key);
      if (present !== undefined) return { outcome: 'present', value: present };
      if (held.marks.size >= maxMarks) return { outcome: 'full' };
      held.marks.set(key, value);
      return { outcome: 'put' };
    },
    async get(id, key) {
      checkKey(id, key);
      const held = sessions.findLive(id);
      return 'outcome' in held ? undefined : held.marks.get(key);
    },
    async delete(id, key) {
      checkKey(id, key);
      const held = sessions.findLive(id);
      return 'outcome' in held ? false : held.marks.delete(key);
    },
  };
}
