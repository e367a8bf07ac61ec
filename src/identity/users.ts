import { AmbitError } from '../errors.ts';
import { teamNamePattern, userNamePattern } from '../lib/text/name-patterns.ts';
import { type Documents, readAllDocuments } from '../stores/documents.ts';
import { anonymousUser } from './principal.ts';

export const userCollection = 'users';

/** People of the configuration. They take precedence over the store and are changed only in the file. */
export interface DeclaredPeople {
  readonly organisation?: string | undefined;
  readonly teams: readonly string[];
  readonly users: readonly { readonly name: string; readonly teams: readonly string[] }[];
}

export interface UserView {
  readonly name: string;
  readonly teams: readonly string[];
  /** True for a user of the configuration, who is changed only there. */
  readonly declared: boolean;
  readonly createdAt: string | null;
}

export interface TeamView {
  readonly name: string;
  readonly declared: boolean;
  readonly members: readonly string[];
}

export interface Users {
  /** Adds a user; an existing one joins the given teams. */
  add(name: string, teams?: readonly string[]): Promise<UserView>;
  setTeams(name: string, teams: readonly string[]): Promise<UserView>;
  get(name: string): Promise<UserView | undefined>;
  list(): Promise<UserView[]>;
  /** False when there is no such user in the store. The caller handles the user's keys and sessions. */
  remove(name: string): Promise<boolean>;
  /** Lists the declared teams and all that have a member. */
  teams(): Promise<TeamView[]>;
}

interface StoredUser {
  readonly teams: readonly string[];
  readonly createdAt: number;
}

const maxTries = 16;

export function createUsers(documents: Documents, declared: () => DeclaredPeople, now: () => number): Users {
  function findDeclared(name: string): UserView | undefined {
    const found = declared().users.find((each) => each.name === name);
    return found && { name, teams: found.teams, declared: true, createdAt: null };
  }

  function assertNotDeclared(name: string): void {
    if (findDeclared(name) === undefined) return;
    throw new AmbitError('REQUEST_INVALID', {
      what: `The user "${name}" is declared in the configuration and can only be changed there.`,
      hint: 'Edit governance.users in the configuration.',
      rule: 'governance.users',
    });
  }

  /** Reads, decides and writes, again after a conflict. */
  async function changeUser(name: string, decide: (stored: StoredUser | undefined) => StoredUser): Promise<UserView> {
    checkUserName(name);
    assertNotDeclared(name);
    for (let tries = 0; tries < maxTries; tries++) {
      const found = await documents.get(userCollection, name);
      const next = decide(found && parseStoredUser(found.text));
      const text = JSON.stringify({ v: 1, ...next });
      const put = await documents.put(userCollection, name, text, { expectedVersion: found?.version ?? 0 });
      if (put.outcome === 'written') return toUserView(name, next);
      if (put.outcome === 'full')
        throw new AmbitError('REQUEST_INVALID', { what: 'The store has no space for another user.' });
    }
    throw new AmbitError('OVERLOADED', { what: 'This user is being changed by someone else.', hint: 'Try again.' });
  }

  return {
    async add(name, teams = []) {
      const joined = checkTeamNames(teams);
      return changeUser(name, (stored) => ({
        teams: checkTeamNames([...(stored?.teams ?? []), ...joined]),
        createdAt: stored?.createdAt ?? now(),
      }));
    },

    async setTeams(name, teams) {
      const next = checkTeamNames(teams);
      return changeUser(name, (stored) => {
        if (stored === undefined) throw userNotFound(name);
        return { ...stored, teams: next };
      });
    },

    async get(name) {
      const known = findDeclared(name);
      if (known !== undefined) return known;
      const found = isStorableName(name) ? await documents.get(userCollection, name) : undefined;
      return found && toUserView(name, parseStoredUser(found.text));
    },

    async list() {
      const stored = await readAllDocuments(documents, userCollection);
      const views = stored.map(({ key, text }) => findDeclared(key) ?? toUserView(key, parseStoredUser(text)));
      const known = new Set(views.map(({ name }) => name));
      const others = declared().users.flatMap(({ name }) => (known.has(name) ? [] : [findDeclared(name) as UserView]));
      return [...views, ...others].sort(compareNames);
    },

    async remove(name) {
      assertNotDeclared(name);
      return isStorableName(name) && (await documents.delete(userCollection, name)).outcome === 'deleted';
    },

    async teams() {
      const members = new Map<string, string[]>(declared().teams.map((name) => [name, []]));
      for (const { name, teams } of await this.list()) {
        for (const team of teams) members.set(team, [...(members.get(team) ?? []), name]);
      }
      const inConfiguration = new Set(declared().teams);
      return [...members]
        .map(([name, each]) => ({ name, declared: inConfiguration.has(name), members: each }))
        .sort(compareNames);
    },
  };
}

export function userNotFound(name: string): AmbitError {
  return new AmbitError('USER_NOT_FOUND', { what: `There is no user "${name.slice(0, 128)}".` });
}

/** Tells whether a name is valid as a key of the store. Callers may pass any text. */
function isStorableName(name: string): boolean {
  try {
    checkUserName(name);
    return true;
  } catch {
    return false;
  }
}

function toUserView(name: string, { teams, createdAt }: StoredUser): UserView {
  return { name, teams, declared: false, createdAt: new Date(createdAt).toISOString() };
}

/** Parses a stored user. A damaged entry is a user without teams, who gets no policies rather than another team's. */
function parseStoredUser(text: string): StoredUser {
  try {
    const { teams, createdAt } = JSON.parse(text) as Record<string, unknown>;
    if (Array.isArray(teams) && teams.every((team) => typeof team === 'string') && Number.isFinite(createdAt)) {
      return { teams: teams as string[], createdAt: createdAt as number };
    }
  } catch {
    // Not JSON at all.
  }
  return { teams: [], createdAt: 0 };
}

function compareNames(a: { readonly name: string }, b: { readonly name: string }): number {
  return a.name < b.name ? -1 : 1;
}

function checkUserName(name: string): void {
  if (!userNamePattern.test(name)) {
    refuseName(
      'That is not a valid user name: it has up to 128 letters, digits and "._@|:-", and starts with a letter or digit.',
    );
  }
  if (name === anonymousUser) refuseName(`"${anonymousUser}" is reserved for anonymous callers.`);
}

/** Checks team names and returns each once, in order. */
function checkTeamNames(names: readonly string[]): string[] {
  if (names.length > 100) refuseName('A user can be in at most 100 teams.');
  for (const name of names) {
    if (!teamNamePattern.test(name)) {
      refuseName(
        'That is not a valid team name: it has up to 64 letters, digits, ".", "_" and "-", and starts with a letter or digit.',
      );
    }
  }
  return [...new Set(names)];
}

function refuseName(what: string): never {
  throw new AmbitError('REQUEST_INVALID', { what });
}
