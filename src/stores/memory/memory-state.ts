import { checkKey, checkMark, checkStateList, countEntryBytes, isConflict, readStateValue } from '../checks.ts';
import { cutKeyPage, maxMarks, type SessionMarks, type SessionStateStore } from '../state.ts';
import type { StateLimits } from '../store.ts';
import type { MemorySession, MemorySessions, MemoryStateEntry } from './memory-sessions.ts';

type LiveSessionLookup = Pick<MemorySessions, 'findLive'> & { now(): number };

export function createMemoryState(sessions: LiveSessionLookup, limits: StateLimits): SessionStateStore {
  function readFreshEntries(held: MemorySession): Map<string, MemoryStateEntry> {
    const now = sessions.now();
    for (const [key, entry] of held.state) {
      if (entry.expiresAt !== null && now >= entry.expiresAt) held.state.delete(key);
    }
    return held.state;
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

    async set(id, key, value, options = {}) {
      checkKey(id, key);
      const read = readStateValue(value, options, limits);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const all = readFreshEntries(held);
      const before = all.get(key);
      const version = before?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      if ('limit' in read) return { outcome: 'full', limit: read.limit };
      if (before === undefined && all.size >= limits.keys) return { outcome: 'full', limit: 'keys' };
      const bytes = countEntryBytes(key, read.text);
      let total = bytes - (before?.bytes ?? 0);
      for (const entry of all.values()) total += entry.bytes;
      if (total > limits.totalBytes) return { outcome: 'full', limit: 'totalBytes' };
      const expiresAt = options.ttlMs === undefined ? null : sessions.now() + options.ttlMs;
      held.stateVersion++;
      all.set(key, { text: read.text, bytes, version: held.stateVersion, expiresAt });
      return { outcome: 'written', version: held.stateVersion };
    },

    async list(id, options = {}) {
      checkStateList(id, options);
      const held = sessions.findLive(id);
      if ('outcome' in held) return { keys: [], next: null };
      const keys = [...readFreshEntries(held)].map(([key, { version, bytes, expiresAt }]) => ({
        key,
        version,
        bytes,
        expiresAt,
      }));
      return cutKeyPage(keys, options);
    },

    async delete(id, key, options = {}) {
      checkKey(id, key);
      const held = sessions.findLive(id);
      if ('outcome' in held) return held;
      const version = readFreshEntries(held).get(key)?.version ?? 0;
      if (isConflict(options, version)) return { outcome: 'conflict', version };
      return { outcome: held.state.delete(key) ? 'deleted' : 'absent' };
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
