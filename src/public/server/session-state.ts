import { errorTable, isAmbitError } from '../../errors.ts';
import type { SetOptions } from '../../stores/state.ts';
import type { Gone, SessionStore, StateLimits } from '../../stores/store.ts';
import type { JsonValue, SessionErrorCode, SessionState, StateWrite } from '../sdk/context.ts';
import { recordRefusal } from '../sdk/current-session.ts';

const maxTries = 32;

/** Creates the state of one session. Handlers get no id, so they cannot reach the state of another session. */
export function createSessionState(store: SessionStore, id: string): SessionState {
  /** Tries once; returns the current version if another call was faster. */
  async function write(key: string, value: Parameters<SessionState['set']>[1], options: SetOptions) {
    const written = await readFromStore(store.state.set(id, key, value, options));
    if (written.outcome === 'written' || written.outcome === 'conflict') return written;
    throw written.outcome === 'full' ? createFullError(written.limit) : createGoneError(written);
  }

  const state: SessionState = {
    async get(key) {
      const entry = await readFromStore(store.state.get(id, key));
      return entry && { value: entry.value, version: entry.version, expiresAt: entry.expiresAt };
    },

    async set(key, value, options = {}) {
      const written = await write(key, value, writeOptions(options));
      if (written.outcome === 'conflict') throw createConflictError(key, written.version);
      return written.version;
    },

    async update<T extends JsonValue>(
      key: string,
      change: (value: T | undefined) => T,
      options: Pick<StateWrite, 'ttlSeconds'> = {},
    ) {
      for (let tries = 0; tries < maxTries; tries++) {
        const entry = await state.get(key);
        const value = change(entry?.value as T | undefined);
        const written = await write(key, value, writeOptions({ ...options, expectedVersion: entry?.version ?? 0 }));
        if (written.outcome === 'written') return { value, version: written.version };
      }
      throw createConflictError(key);
    },

    async delete(key, options = {}) {
      const deleted = await readFromStore(store.state.delete(id, key, writeOptions(options)));
      if (deleted.outcome === 'conflict') throw createConflictError(key, deleted.version);
      if (deleted.outcome !== 'deleted' && deleted.outcome !== 'absent') throw createGoneError(deleted);
      return deleted.outcome === 'deleted';
    },

    async list(options = {}) {
      const known = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
      const { keys, next } = await readFromStore(store.state.list(id, known));
      return { keys: keys.map(({ key }) => key), next };
    },
  };
  return Object.freeze(state);
}

function writeOptions({ expectedVersion, ttlSeconds }: StateWrite): SetOptions {
  return {
    ...(expectedVersion === undefined ? {} : { expectedVersion }),
    ...(ttlSeconds === undefined ? {} : { ttlMs: Math.round(ttlSeconds * 1000) }),
  };
}

/** Turns an error of the store into one that a tool's answer can carry. */
async function readFromStore<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    throw recordRefusal(error.code as SessionErrorCode, error.message, error.hint);
  }
}

function createGoneError(reason: Gone): Error {
  const code = reason.outcome === 'expired' ? 'SESSION_EXPIRED' : 'SESSION_ENDED';
  return recordRefusal(code, errorTable[code].sentence, errorTable[code].hint);
}

function createConflictError(key: string, version?: number): Error {
  const has = version === undefined ? '' : version === 0 ? '; it no longer exists' : `; its version is now ${version}`;
  const what = `the entry ${JSON.stringify(key)} was changed in the meantime${has}.`;
  return recordRefusal('STATE_CONFLICT', what, 'Read it again, then write with its current version.');
}

const limitTexts: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'the value is larger than allowed for one entry',
  keys: 'the limit on entries is reached',
  totalBytes: 'all entries together would be larger than allowed',
};

function createFullError(limit: keyof StateLimits): Error {
  const what = `the session cannot store this: ${limitTexts[limit]}.`;
  return recordRefusal('STATE_FULL', what, 'Delete entries that are no longer needed, or store smaller values.');
}
