import { findClosest } from '../config/explain/suggest.ts';
import { findWorkspace, listWorkspaces } from '../config/load/workspace-folders.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import type { Directory } from '../identity/directory.ts';
import type { KeyView } from '../identity/key-record.ts';
import { keyNotFound, type MintedKey } from '../identity/keys.ts';
import type { TeamView, UserView } from '../identity/users.ts';
import type { Journal } from '../observability/journal/journal.ts';
import type { TrustLevel } from '../rules/trust-level.ts';
import { checkPermissions } from '../sessions/check-fields.ts';
import type { Sessions } from '../sessions/sessions.ts';

export interface KeyRequest {
  readonly userId: string;
  /** The highest trust level of the key; `direct` by default. */
  readonly trustLevel?: TrustLevel | undefined;
  /** The only workspaces that the key may use; all by default. */
  readonly workspaces?: readonly string[] | undefined;
  /** The permissions of sessions that are opened with the key; none by default. */
  readonly scopes?: readonly string[] | undefined;
  readonly lifeSeconds?: number | undefined;
}

/** Users, teams and keys for an operator. Changes apply to all processes and are recorded. */
export interface DirectoryAdmin {
  organisation(): string | undefined;
  readonly users: {
    add(name: string, teams?: readonly string[]): Promise<UserView>;
    setTeams(name: string, teams: readonly string[]): Promise<UserView>;
    get(name: string): Promise<UserView | undefined>;
    list(): Promise<UserView[]>;
    /** Removes a user with all keys and the sessions that were opened with them. */
    remove(name: string): Promise<{ readonly keys: number; readonly sessions: number } | undefined>;
  };
  teams(): Promise<TeamView[]>;
  readonly keys: {
    create(wish: KeyRequest): Promise<MintedKey>;
    list(filter?: { readonly userId?: string | undefined }): Promise<KeyView[]>;
    /** Finds a key by its id, or by a unique beginning of it. */
    get(reference: string): Promise<KeyView>;
    /** Ends the sessions that were opened with it, in every process. */
    revoke(reference: string): Promise<{ readonly view: KeyView; readonly sessions: number }>;
    rotate(reference: string, overlapSeconds?: number): Promise<MintedKey>;
  };
}

interface DirectoryAdminParts {
  readonly directory: Directory;
  readonly sessions: Sessions;
  readonly config: () => Config;
  readonly journal: Journal;
  /** Removes everything that was kept for the user. Somebody added later under the same name is another person. */
  readonly onUserRemoved: (userId: string) => Promise<void>;
}

const graceMs = 200;
const minReferenceLength = 6;
const maxLifeSeconds = 10 * 31_536_000;

export function createDirectoryAdmin(parts: DirectoryAdminParts): DirectoryAdmin {
  const { directory, sessions, config, journal, onUserRemoved } = parts;
  const { users, keys } = directory;

  function recordChange(event: string, userId: string, more: { readonly keyId?: string } = {}): void {
    journal.record({ kind: 'gateway', event, userId, ...more });
  }

  // The process that revoked the key ends its sessions. This one does so if the other stopped before it could.
  directory.onRevoked((_, keyId) => void setTimeout(endLoadedSessions, graceMs, keyId).unref());

  function endLoadedSessions(keyId: string): void {
    for (const { id } of sessions.loaded().filter((session) => session.keyId === keyId)) {
      void sessions.end(id, 'revoked').catch(() => false);
    }
  }

  async function findKey(reference: string): Promise<KeyView> {
    const exact = await keys.get(reference);
    if (exact !== undefined) return exact;
    if (reference.length < minReferenceLength) throw keyNotFound();
    const [found, ...others] = (await keys.list()).filter(({ id }) => id.startsWith(reference));
    if (found === undefined) throw keyNotFound();
    if (others.length === 0) return found;
    throw new AmbitError('REQUEST_INVALID', {
      what: 'Several keys start with that prefix.',
      hint: 'Give the whole id.',
    });
  }

  async function revoke({ id, userId, state }: KeyView): Promise<{ view: KeyView; sessions: number }> {
    const view = await keys.revoke(id);
    if (view === undefined) throw keyNotFound();
    if (state !== 'revoked') recordChange('key-revoked', userId, { keyId: id });
    return { view, sessions: await sessions.endForKey(userId, id) };
  }

  async function revokeAll(userId: string): Promise<{ keys: number; sessions: number }> {
    const live = (await keys.list({ userId })).filter(({ state }) => state !== 'revoked');
    let ended = 0;
    for (const each of live) ended += (await revoke(each)).sessions;
    return { keys: live.length, sessions: ended };
  }

  function readWorkspaces(names: readonly string[] | undefined): readonly string[] | null {
    if (names === undefined) return null;
    if (names.length === 0)
      throw new AmbitError('REQUEST_INVALID', {
        what: 'The list of workspaces is empty. A key needs at least one workspace, or no list.',
      });
    const now = config();
    for (const name of names) {
      if (findWorkspace(now, name) !== undefined) continue;
      const meant = findClosest(name, listWorkspaces(now).names);
      throw new AmbitError('WORKSPACE_NOT_FOUND', {
        what: `There is no workspace "${name.slice(0, 63)}"${meant === undefined ? '.' : `; did you mean "${meant}"?`}`,
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
        recordChange(known === undefined ? 'user-added' : 'user-changed', name);
        return view;
      },
      async setTeams(name, teams) {
        const view = await users.setTeams(name, teams);
        recordChange('user-changed', name);
        return view;
      },
      get: users.get,
      list: users.list,
      async remove(name) {
        const known = await users.get(name);
        if (known === undefined) return undefined;
        // The refusal of a declared user comes first, so that no keys are revoked for a user who stays.
        if (known.declared) await users.remove(name);
        const before = await revokeAll(name);
        await users.remove(name);
        recordChange('user-removed', name);
        // Keys may have been made during the removal. From here on nobody can make more.
        const after = await revokeAll(name);
        await onUserRemoved(name);
        return { keys: before.keys + after.keys, sessions: before.sessions + after.sessions };
      },
    },
    teams: directory.teams.list,
    keys: {
      async create({ userId, trustLevel = 'direct', workspaces, scopes, lifeSeconds }) {
        assertLifetime(lifeSeconds);
        const ceiling = {
          trustLevel,
          workspaces: readWorkspaces(workspaces),
          scopes: scopes === undefined ? null : checkPermissions(scopes),
        };
        const minted = await keys.create({ userId, ceiling, lifeSeconds });
        recordChange('key-created', userId, { keyId: minted.view.id });
        return minted;
      },
      list: keys.list,
      get: findKey,
      revoke: async (reference) => revoke(await findKey(reference)),
      async rotate(reference, overlapSeconds = 0) {
        if (overlapSeconds !== 0) assertLifetime(overlapSeconds);
        const { id, userId } = await findKey(reference);
        const minted = await keys.rotate(id, overlapSeconds);
        recordChange('key-rotated', userId, { keyId: id });
        return minted;
      },
    },
  };
}

function assertLifetime(seconds: number | undefined): void {
  if (seconds === undefined || (Number.isInteger(seconds) && seconds >= 1 && seconds <= maxLifeSeconds)) return;
  throw new AmbitError('REQUEST_INVALID', { what: 'A time must be a whole number of seconds, at most ten years.' });
}
