import { closest } from '../../config/explain/suggest.ts';
import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { Directory } from '../../identity/directory.ts';
import type { KeyView } from '../../identity/key-record.ts';
import { type MintedKey, noKey } from '../../identity/keys.ts';
import type { TeamView, UserView } from '../../identity/users.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { checkPermissions } from '../../sessions/check-draft.ts';
import type { Sessions } from '../../sessions/sessions.ts';

export type { KeyView, MintedKey, TeamView, UserView };

export interface KeyWish {
  readonly userId: string;
  /** The most it may have; `direct` unless said. */
  readonly trustLevel?: TrustLevel | undefined;
  /** The only workspaces; all unless said. */
  readonly workspaces?: readonly string[] | undefined;
  /** What the sessions opened with it may do; nothing that needs a permission unless said. */
  readonly scopes?: readonly string[] | undefined;
  readonly lifeSeconds?: number | undefined;
}

/** The directory as an operator handles it: what it says is done everywhere, and written down. */
export interface People {
  organisation(): string | undefined;
  readonly users: {
    add(name: string, teams?: readonly string[]): Promise<UserView>;
    setTeams(name: string, teams: readonly string[]): Promise<UserView>;
    get(name: string): Promise<UserView | undefined>;
    list(): Promise<UserView[]>;
    /** With it go the keys, and the sessions that were opened with them. */
    remove(name: string): Promise<{ readonly keys: number; readonly sessions: number } | undefined>;
  };
  teams(): Promise<TeamView[]>;
  readonly keys: {
    create(wish: KeyWish): Promise<MintedKey>;
    list(filter?: { readonly userId?: string | undefined }): Promise<KeyView[]>;
    /** By id, or by a beginning of it that fits only one. */
    get(reference: string): Promise<KeyView>;
    /** Ends the sessions that were opened with it, in every process. */
    revoke(reference: string): Promise<{ readonly view: KeyView; readonly sessions: number }>;
    rotate(reference: string, overlapSeconds?: number): Promise<MintedKey>;
  };
}

export interface PeopleParts {
  readonly directory: Directory;
  readonly sessions: Sessions;
  readonly config: () => Config;
  readonly journal: Journal;
  /** What was kept for the user goes too: whoever is added under this name later is somebody else. */
  readonly onUserRemoved: (userId: string) => Promise<void>;
}

const graceMs = 200;
const shortestReference = 6;
const longestLifeSeconds = 10 * 31_536_000;

export function createPeople({ directory, sessions, config, journal, onUserRemoved }: PeopleParts): People {
  const { users, keys } = directory;

  function note(event: string, userId: string, more: { readonly keyId?: string } = {}): void {
    journal.record({ kind: 'gateway', event, userId, ...more });
  }

  // Whoever revoked it ends them, and that is heard of here; unless it was stopped before it could.
  directory.onRevoked((_, keyId) => void setTimeout(endHeld, graceMs, keyId).unref());

  function endHeld(keyId: string): void {
    for (const { id } of sessions.held().filter((session) => session.keyId === keyId)) {
      void sessions.end(id, 'revoked').catch(() => false);
    }
  }

  async function named(reference: string): Promise<KeyView> {
    const exact = await keys.get(reference);
    if (exact !== undefined) return exact;
    if (reference.length < shortestReference) throw noKey();
    const [found, ...others] = (await keys.list()).filter(({ id }) => id.startsWith(reference));
    if (found === undefined) throw noKey();
    if (others.length === 0) return found;
    throw new AmbitError('REQUEST_INVALID', { what: 'Several keys begin so.', hint: 'Give the whole id.' });
  }

  async function revoke({ id, userId, state }: KeyView): Promise<{ view: KeyView; sessions: number }> {
    const view = await keys.revoke(id);
    if (view === undefined) throw noKey();
    if (state !== 'revoked') note('key-revoked', userId, { keyId: id });
    return { view, sessions: await sessions.endOfKey(userId, id) };
  }

  async function revokeAll(userId: string): Promise<{ keys: number; sessions: number }> {
    const live = (await keys.list({ userId })).filter(({ state }) => state !== 'revoked');
    let ended = 0;
    for (const each of live) ended += (await revoke(each)).sessions;
    return { keys: live.length, sessions: ended };
  }

  function checkWorkspaces(names: readonly string[] | undefined): readonly string[] | null {
    if (names === undefined) return null;
    if (names.length === 0)
      throw new AmbitError('REQUEST_INVALID', { what: 'A key that may use no workspace is none.' });
    const { workspaces } = config();
    for (const name of names) {
      if (Object.hasOwn(workspaces, name)) continue;
      const meant = closest(name, Object.keys(workspaces));
      throw new AmbitError('WORKSPACE_NOT_FOUND', {
        what: `There is no workspace "${name.slice(0, 63)}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
      });
    }
    return [...new Set(names)];
  }

  return {
    organisation: directory.organisation,
    users: {
      async add(name, teams) {
        const known = await users.get(name);
        const view = await users.add(name, teams);
        note(known === undefined ? 'user-added' : 'user-changed', name);
        return view;
      },
      async setTeams(name, teams) {
        const view = await users.setTeams(name, teams);
        note('user-changed', name);
        return view;
      },
      get: users.get,
      list: users.list,
      async remove(name) {
        const known = await users.get(name);
        if (known === undefined) return undefined;
        // First what is refused, so that nothing is revoked for a user who stays.
        if (known.declared) await users.remove(name);
        const before = await revokeAll(name);
        await users.remove(name);
        note('user-removed', name);
        // Made while we were at it; from here on nobody can make more.
        const after = await revokeAll(name);
        await onUserRemoved(name);
        return { keys: before.keys + after.keys, sessions: before.sessions + after.sessions };
      },
    },
    teams: directory.teams.list,
    keys: {
      async create({ userId, trustLevel = 'direct', workspaces, scopes, lifeSeconds }) {
        checkLife(lifeSeconds);
        const ceiling = {
          trustLevel,
          workspaces: checkWorkspaces(workspaces),
          scopes: scopes === undefined ? null : checkPermissions(scopes),
        };
        const minted = await keys.create({ userId, ceiling, lifeSeconds });
        note('key-created', userId, { keyId: minted.view.id });
        return minted;
      },
      list: keys.list,
      get: named,
      revoke: async (reference) => revoke(await named(reference)),
      async rotate(reference, overlapSeconds = 0) {
        if (overlapSeconds !== 0) checkLife(overlapSeconds);
        const { id, userId } = await named(reference);
        const minted = await keys.rotate(id, overlapSeconds);
        note('key-rotated', userId, { keyId: id });
        return minted;
      },
    },
  };
}

function checkLife(seconds: number | undefined): void {
  if (seconds === undefined || (Number.isInteger(seconds) && seconds >= 1 && seconds <= longestLifeSeconds)) return;
  throw new AmbitError('REQUEST_INVALID', { what: 'A time is a whole number of seconds, ten years at most.' });
}
