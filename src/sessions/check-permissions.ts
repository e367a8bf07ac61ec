import { AmbitError } from '../errors.ts';
import { mostPermissions, permissionName } from '../rules/session-base.ts';

/** The permissions of a session, each once. */
export function checkPermissions(names: readonly string[]): string[] {
  if (names.length > mostPermissions) {
    throw new AmbitError('REQUEST_INVALID', { what: `A session has at most ${mostPermissions} permissions.` });
  }
  const wrong = names.find((name) => typeof name !== 'string' || !permissionName.test(name));
  if (wrong === undefined) return [...new Set(names)];
  throw new AmbitError('REQUEST_INVALID', {
    what: `"${String(wrong).slice(0, 60)}" is not a permission: it has up to 128 of a-z, 0-9 and ":._*-".`,
    hint: 'Name permissions as "notes:write".',
  });
}
