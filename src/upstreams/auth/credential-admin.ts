import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ServerDefinition } from '../definition.ts';
import type { Links } from '../links/links.ts';
import { assertTarget, type CredentialTarget, createTarget, isForOneUser, throwInvalid } from './credential-target.ts';
import { type CredentialName, type Credentials, type CredentialView, openCredentials } from './credentials.ts';
import { type MatchesUser, openSealingKeys } from './sealed-documents.ts';

/** The credentials for an operator, who can write values but never read them. */
export interface CredentialAdmin {
  set(which: CredentialName, value: string): Promise<void>;
  /** False when there was none. */
  remove(which: CredentialName): Promise<boolean>;
  list(): CredentialView[];
}

interface CredentialAdminOptions {
  readonly credentials: Credentials | undefined;
  readonly servers: () => ReadonlyMap<string, ServerDefinition>;
  readonly prefixes: () => readonly string[];
  readonly journal?: Journal;
}

/** Opens the credentials with the key that the configuration names. */
export function openConfiguredCredentials(store: SessionStore, config: Config, dataDir: string): Promise<Credentials> {
  const { keyFile } = config.credentials;
  return openCredentials(store, openSealingKeys({ dataDir, keyFile, env: process.env }));
}

export function createCredentialAdmin({
  credentials,
  servers,
  prefixes,
  journal,
}: CredentialAdminOptions): CredentialAdmin {
  function requireCredentials(): Credentials {
    if (credentials === undefined)
      throw new AmbitError('GATEWAY_UNREACHABLE', { what: 'This gateway does not store credentials.' });
    return credentials;
  }

  function note(event: 'credential-set' | 'credential-removed', { userId, server, name }: CredentialTarget): void {
    journal?.record({ kind: 'gateway', event, userId, server, name });
  }

  return {
    async set(which, value) {
      const target = readTarget(which);
      const server = requireServer(servers(), target.server);
      if (target.userId === anonymousUser) throwInvalid('Anonymous callers cannot have credentials.');
      assertTarget(target, server, prefixes());
      await requireCredentials().set(target, value);
      note('credential-set', target);
    },
    async remove(which) {
      const target = readTarget(which);
      const removed = await requireCredentials().remove(target);
      if (removed) note('credential-removed', target);
      return removed;
    },
    list: () => requireCredentials().list(),
  };
}

/** Closes the links that use a credential or login that was replaced or removed. */
export async function closeLinksUsing(
  links: Pick<Links, 'end'>,
  servers: ReadonlyMap<string, ServerDefinition>,
  name: string,
  concerns: MatchesUser,
): Promise<void> {
  const server = servers.get(name);
  if (server !== undefined && !isForOneUser(server)) return;
  const reason = new AmbitError('UPSTREAM_FAILED', {
    what: `A credential for the server "${name}" was changed while the server was running; processes with the old one were ended.`,
    hint: 'Try again. The new credential is used from now on.',
  });
  await links.end(name, reason, ({ userId }) => concerns(userId, name));
}

export function requireServer(servers: ReadonlyMap<string, ServerDefinition>, name: string): ServerDefinition {
  const server = servers.get(name);
  if (server !== undefined) return server;
  throw new AmbitError('SERVER_NOT_AVAILABLE', {
    what: `The configuration has no enabled server "${name}".`,
    hint: 'List the servers with "ambit server list".',
  });
}

function readTarget({ userId, server, env, header }: CredentialName): CredentialTarget {
  if ((env === undefined) === (header === undefined)) throwInvalid('Give either a variable or a header.');
  return createTarget(userId, server, env === undefined ? 'header' : 'env', (env ?? header) as string);
}
