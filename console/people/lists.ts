import type { AnswerOf } from '../api/request.ts';
import { type Loaded, useRequest } from '../api/use-request.ts';

export type User = AnswerOf<'GET /api/v1/users'>['users'][number];
export type Key = AnswerOf<'GET /api/v1/keys'>['keys'][number];
export type Credential = AnswerOf<'GET /api/v1/credentials'>['credentials'][number];
export type Login = AnswerOf<'GET /api/v1/logins'>['logins'][number];

/** All lists of the view. Each tab shows one of them and uses the others for counts and known names. */
export interface PeopleLists {
  readonly users: Loaded<AnswerOf<'GET /api/v1/users'>>;
  readonly keys: Loaded<AnswerOf<'GET /api/v1/keys'>>;
  readonly credentials: Loaded<AnswerOf<'GET /api/v1/credentials'>>;
  readonly logins: Loaded<AnswerOf<'GET /api/v1/logins'>>;
}

const refresh = { everyMs: 15_000 };

export function usePeopleLists(): PeopleLists {
  return {
    users: useRequest('GET /api/v1/users', {}, refresh),
    keys: useRequest('GET /api/v1/keys', {}, refresh),
    credentials: useRequest('GET /api/v1/credentials', {}, refresh),
    logins: useRequest('GET /api/v1/logins', {}, refresh),
  };
}

export async function reloadLists({ users, keys, credentials, logins }: PeopleLists): Promise<void> {
  await Promise.all([users.reload(), keys.reload(), credentials.reload(), logins.reload()]);
}

/** Lists the names of all users that the lists know, also of those who only have a credential or a login. */
export function listUserNames({ users, keys, credentials, logins }: PeopleLists): string[] {
  const names = [
    ...(users.answer.value?.users.map(({ name }) => name) ?? []),
    ...(keys.answer.value?.keys.map(({ userId }) => userId) ?? []),
    ...(credentials.answer.value?.credentials.map(({ userId }) => userId) ?? []),
    ...(logins.answer.value?.logins.map(({ userId }) => userId) ?? []),
  ];
  return [...new Set(names)].sort();
}

/** Selects the rows of a user. A name that nobody has is read as a part of a name. */
export function selectByName<Row>(rows: readonly Row[], nameOf: (row: Row) => string, wanted: string): readonly Row[] {
  if (wanted === '') return rows;
  const exact = rows.filter((row) => nameOf(row) === wanted);
  if (exact.length > 0) return exact;
  const part = wanted.toLowerCase();
  return rows.filter((row) => nameOf(row).toLowerCase().includes(part));
}

/** Says in words what sessions of the key may have at most. */
export function describeCeiling({ trustLevel, workspaces, scopes }: Key): string {
  const places = workspaces === null ? 'all workspaces' : `workspaces ${workspaces.join(', ')}`;
  return `${trustLevel}, ${places}, ${scopes === null || scopes.length === 0 ? 'no permissions' : `permissions ${scopes.join(', ')}`}`;
}
