import { checkKey, checkMark, checkStateList, entryBytes, readValue } from '../checks.ts';
import { mostMarks, pageOfKeys, type SessionMarks, type SessionState, type StateKey } from '../state.ts';
import type { StateLimits } from '../store.ts';
import { type RedisConnection, script } from './connection.ts';
import { asList, goneFrom } from './replies.ts';
import * as scripts from './scripts/state-scripts.ts';

const get = script(scripts.stateGetScript);
const set = script(scripts.stateSetScript);
const list = script(scripts.stateListScript);
const remove = script(scripts.stateDeleteScript);
const markPut = script(scripts.markPutScript);
const markGet = script(scripts.markGetScript);
const markDelete = script(scripts.markDeleteScript);

function keyFrom(key: string, version: string, expires: string, bytes: string): StateKey {
  return { key, version: Number(version), bytes: Number(bytes), expiresAt: expires === '0' ? null : Number(expires) };
}

export function redisState(connection: RedisConnection, limits: StateLimits): SessionState {
  return {
    async get(id, key) {
      checkKey(id, key);
      const [version, expires, bytes, value] = asList(await connection.run(get, id, key)) as string[];
      if (version === undefined || expires === undefined || bytes === undefined) return undefined;
      return { ...keyFrom(key, version, expires, bytes), value: JSON.parse(value as string) };
    },

    async set(id, key, value, options = {}) {
      checkKey(id, key);
      const read = readValue(value, options, limits);
      const text = 'text' in read ? read.text : '';
      const { expectedVersion = '', ttlMs = '' } = options;
      const tooLong = 'text' in read ? '0' : '1';
      const bounds = [tooLong, limits.keys, limits.totalBytes];
      const reply = await connection.run(set, id, key, text, entryBytes(key, text), expectedVersion, ttlMs, ...bounds);
      const [word, detail] = asList(reply);
      const gone = goneFrom(word);
      if (gone !== undefined) return gone;
      if (word === 'full') return { outcome: 'full', limit: detail as keyof StateLimits };
      return { outcome: word === 'written' ? 'written' : 'conflict', version: Number(detail) };
    },

    async list(id, options = {}) {
      checkStateList(id, options);
      const found = asList(await connection.run(list, id)) as [string, string, string, string][];
      return pageOfKeys(
        found.map((entry) => keyFrom(...entry)),
        options,
      );
    },

    async delete(id, key, options = {}) {
      checkKey(id, key);
      const [word, version] = asList(await connection.run(remove, id, key, options.expectedVersion ?? ''));
      const gone = goneFrom(word);
      if (gone !== undefined) return gone;
      if (word === 'conflict') return { outcome: 'conflict', version: Number(version) };
      return { outcome: word === 'deleted' ? 'deleted' : 'absent' };
    },
  };
}

export function redisMarks(connection: RedisConnection): SessionMarks {
  return {
    async put(id, key, value = '') {
      checkMark(id, key, value);
      const [word, present] = asList(await connection.run(markPut, id, key, value, mostMarks));
      const gone = goneFrom(word);
      if (gone !== undefined) return gone;
      if (word === 'present') return { outcome: 'present', value: present as string };
      return { outcome: word === 'put' ? 'put' : 'full' };
    },
    async get(id, key) {
      checkKey(id, key);
      return ((await connection.run(markGet, id, key)) as string | null) ?? undefined;
    },
    async delete(id, key) {
      checkKey(id, key);
      return (await connection.run(markDelete, id, key)) === 1;
    },
  };
}
