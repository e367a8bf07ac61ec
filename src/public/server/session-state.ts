import { type ErrorCode, errorTable, isAmbitError } from '../../errors.ts';
import type { SetOptions } from '../../stores/state.ts';
import type { Gone, SessionStore, StateLimits } from '../../stores/store.ts';
import { noted } from '../sdk/guards.ts';
import type { SessionErrorCode } from '../sdk/session-error.ts';
import type { SessionState, StateWrite } from '../sdk/session-state.ts';

const mostTries = 32;

/** The state of one session and of no other: its id is taken here, and handlers never see it. */
export function stateOf(store: SessionStore, id: string): SessionState {
  /** One try; the version when somebody else was faster. */
  async function write(key: string, value: Parameters<SessionState['set']>[1], options: SetOptions) {
    const written = await asked(store.state.set(id, key, value, options));
    if (written.outcome === 'written' || written.outcome === 'conflict') return written;
    throw written.outcome === 'full' ? full(written.limit) : gone(written);
  }

  const state: SessionState = {
    async get(key) {
      const entry = await asked(store.state.get(id, key));
      return entry && { value: entry.value, version: entry.version, expiresAt: entry.expiresAt };
    },

    async set(key, value, options = {}) {
      const written = await write(key, value, writeOptions(options));
      if (written.outcome === 'conflict') throw conflict(key, written.version);
      return written.version;
    },

    async update(key, change, options = {}) {
      for (let tries = 0; tries < mostTries; tries++) {
        const entry = await state.get(key);
        const value = change(entry?.value);
        const expectedVersion = entry?.version ?? 0;
        const written = await write(key, value, writeOptions({ ...options, expectedVersion }));
        if (written.outcome === 'written') return { value, version: written.version };
      }
      throw conflict(key);
    },

    async delete(key, options = {}) {
      const deleted = await asked(store.state.delete(id, key, writeOptions(options)));
      if (deleted.outcome === 'conflict') throw conflict(key, deleted.version);
      if (deleted.outcome !== 'deleted' && deleted.outcome !== 'absent') throw gone(deleted);
      return deleted.outcome === 'deleted';
    },

    async list(options = {}) {
      const given = Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
      const { keys, next } = await asked(store.state.list(id, given));
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

/** What stands against it, in the words that a tool's answer carries. */
async function asked<T>(answer: Promise<T>): Promise<T> {
  try {
    return await answer;
  } catch (error) {
    if (!isAmbitError(error)) throw error;
    throw noted(error.code as SessionErrorCode, error.message, error.hint);
  }
}

function gone(why: Gone): Error {
  const code = why.outcome === 'expired' ? 'SESSION_EXPIRED' : 'SESSION_ENDED';
  return noted(code, sentence(code), errorTable[code].hint);
}

const sentence = (code: ErrorCode) => errorTable[code].sentence;

function conflict(key: string, version?: number): Error {
  const has = version === undefined ? '' : version === 0 ? '; there is none now' : `; it has version ${version} now`;
  const what = `the entry ${JSON.stringify(key)} was written meanwhile${has}.`;
  return noted('STATE_CONFLICT', what, 'Read it again, decide anew, and write with the version it has then.');
}

const bounds: Readonly<Record<keyof StateLimits, string>> = {
  valueBytes: 'the value is larger than one entry may be',
  keys: 'it has as many entries as it may have',
  totalBytes: 'its entries together would be larger than they may be',
};

function full(limit: keyof StateLimits): Error {
  const what = `the session cannot keep that: ${bounds[limit]}.`;
  return noted('STATE_FULL', what, 'Delete what is no longer needed, or keep less.');
}
