import { findClosest } from '../config/explain/suggest.ts';
import type { Config } from '../config/schema/schema.ts';
import { AmbitError } from '../errors.ts';
import { maxPermissions, permissionPattern } from '../rules/session-base.ts';
import type { SessionDraft } from './session.ts';

const metadataKeyPattern = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
const maxServers = 1000;

/** The servers a session is limited to, each once. An unknown name is refused: it would limit nothing. */
export function checkServers(names: readonly string[], config: Config, known: readonly string[] = []): string[] {
  if (names.length > maxServers)
    throw new AmbitError('REQUEST_INVALID', { what: `At most ${maxServers} servers can be named.` });
  for (const name of names) {
    if (known.includes(name) || Object.hasOwn(config.servers, name)) continue;
    const meant = findClosest(name, Object.keys(config.servers));
    throw new AmbitError('REQUEST_INVALID', {
      what: `There is no server "${name.slice(0, 60)}"${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
      hint: 'List the servers with "ambit server list".',
    });
  }
  return [...new Set(names)];
}

/** The permissions of a session, each once. */
export function checkPermissions(names: readonly string[]): string[] {
  if (names.length > maxPermissions) {
    throw new AmbitError('REQUEST_INVALID', { what: `A session has at most ${maxPermissions} permissions.` });
  }
  const wrong = names.find((name) => typeof name !== 'string' || !permissionPattern.test(name));
  if (wrong === undefined) return [...new Set(names)];
  throw new AmbitError('REQUEST_INVALID', {
    what: `"${String(wrong).slice(0, 60)}" is not a valid permission: it has up to 128 characters of a-z, 0-9 and ":._*-".`,
    hint: 'Write permissions like "notes:write".',
  });
}

export function checkMetadata(metadata: SessionDraft['metadata'], maxBytes: number): void {
  if (metadata === undefined) return;
  const odd = Object.keys(metadata).find((key) => !metadataKeyPattern.test(key));
  if (odd !== undefined) {
    throw new AmbitError('REQUEST_INVALID', {
      what: `"${odd.slice(0, 64)}" is not a valid metadata key; use up to 64 letters, digits, ".", "_" and "-".`,
    });
  }
  const bytes = Buffer.byteLength(JSON.stringify(metadata));
  if (bytes <= maxBytes) return;
  throw new AmbitError('METADATA_TOO_LARGE', { what: `The metadata has ${bytes} bytes; ${maxBytes} are allowed.` });
}
