import { AmbitError } from '../../errors.ts';
import { anonymousUser } from '../../identity/principal.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { ServerLaunch } from '../access/launch.ts';
import type { HttpServer, ServerDefinition, StdioServer } from '../definition.ts';
import {
  assertCredentialValue,
  type CredentialTarget,
  credentialKey,
  credentialKeyPrefix,
  findNameProblem,
  isForOneUser,
  throwInvalid,
} from './credential-target.ts';
import {
  type AuthChangeListener,
  type CachedDocument,
  createChangeListeners,
  openDocumentCache,
  readSealedCredential,
  type SealedCredential,
  type SealingKeys,
  sealCredential,
  unsealCredential,
} from './sealed-documents.ts';

const credentialsCollection = 'credentials';

interface OpenedCredential extends CredentialTarget {
  readonly value: string;
}

/** The name of a credential: either a variable or a header. */
export interface CredentialName {
  readonly userId: string;
  readonly server: string;
  readonly env?: string | undefined;
  readonly header?: string | undefined;
}

/** A credential without its value. */
export interface CredentialView extends CredentialName {
  readonly setAt: string;
  /** False when the current key cannot open it. */
  readonly usable: boolean;
}

/** The credentials of users for upstreams, sealed in the store and opened only for use. */
export interface Credentials {
  /** Opens the credentials of a user for a server. Throws when one cannot be opened: then the server gets none. */
  read(userId: string, server: string): readonly OpenedCredential[];
  /** Lists the credentials of a user for a server without opening them. */
  listTargets(userId: string, server: string): readonly Pick<CredentialTarget, 'kind' | 'name'>[];
  /** Changes with every change of these credentials; empty when there are none. */
  revision(userId: string, server: string): string;
  /** Replaces a credential. Resolves when the listeners have handled the change. */
  set(target: CredentialTarget, value: string): Promise<void>;
  /** False when there was none. */
  remove(target: CredentialTarget): Promise<boolean>;
  list(): CredentialView[];
  /** Reports changed credentials, also those that another process has changed. */
  onChange(listener: AuthChangeListener): void;
  close(): void;
}

export async function openCredentials(store: SessionStore, keys: SealingKeys): Promise<Credentials> {
  const listeners = createChangeListeners();
  const cache = await openDocumentCache(store, credentialsCollection, readSealedCredential, listeners.notify);

  function openCredential({ key, sealed }: CachedDocument<SealedCredential>): OpenedCredential {
    const secret = keys.current();
    const value = sealed === undefined || secret === undefined ? undefined : unsealCredential(sealed, secret);
    if (sealed !== undefined && value !== undefined) return { ...sealed.target, value };
    const [, server, , name] = key.split('/');
    const why =
      sealed === undefined || sealed.keyId === secret?.id
        ? 'the stored value is damaged'
        : 'it was encrypted with another key';
    throw new AmbitError('CREDENTIAL_UNUSABLE', { what: `The credential ${name} for the server "${server}": ${why}.` });
  }

  /** Refuses a second key on one store: the mistake would show only when a server starts on another machine. */
  function assertSameKey(id: string): void {
    if (cache.listAll().every(({ sealed }) => sealed === undefined || sealed.keyId === id)) return;
    throw new AmbitError('CREDENTIAL_UNUSABLE', {
      what: 'The store contains credentials that were encrypted with another key.',
      hint: 'Use the same key on all machines (AMBIT_CREDENTIALS_KEY), or remove those credentials first.',
    });
  }

  return {
    read: (userId, server) => cache.listUnder(credentialKeyPrefix(userId, server)).map(openCredential),

    listTargets: (userId, server) =>
      cache.listUnder(credentialKeyPrefix(userId, server)).map(({ key }) => {
        const [, , kind, name = ''] = key.split('/');
        return { kind: kind as CredentialTarget['kind'], name };
      }),

    revision: (userId, server) =>
      cache
        .listUnder(credentialKeyPrefix(userId, server))
        .map(({ version }) => version)
        .sort((a, b) => a - b)
        .join('.'),

    async set(target, value) {
      assertCredentialValue(target.kind, value);
      const existing = keys.current();
      if (existing !== undefined || cache.listAll().length > 0) assertSameKey(existing?.id ?? '');
      const key = existing ?? (await keys.make());
      const sealed = sealCredential(target, value, key, Date.now());
      const { outcome } = await store.documents.put(credentialsCollection, credentialKey(target), sealed);
      if (outcome !== 'written') throwInvalid('The store has no space for another credential.');
      await cache.refresh(credentialKey(target));
    },

    async remove(target) {
      const { outcome } = await store.documents.delete(credentialsCollection, credentialKey(target));
      await cache.refresh(credentialKey(target));
      return outcome === 'deleted';
    },

    list() {
      const secret = keys.current();
      const views = cache.listAll().map(({ key, sealed }): CredentialView => {
        const [, server = '', kind = '', name] = key.split('/');
        // The user is unknown, but an operator who knows it can remove the credential.
        if (sealed === undefined) return { userId: '(unreadable)', server, [kind]: name, setAt: '', usable: false };
        const usable = secret !== undefined && unsealCredential(sealed, secret) !== undefined;
        const { userId } = sealed.target;
        return { userId, server, [kind]: name, setAt: new Date(sealed.setAt).toISOString(), usable };
      });
      const orderOf = ({ userId, server, env, header }: CredentialView) =>
        JSON.stringify([userId, server, env ?? header]);
      return views.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
    },

    onChange: listeners.add,
    close: cache.close,
  };
}

type AuthValues = Readonly<Record<string, string>>;

/** Adds the credentials of a session's user to launches and requests. */
export interface CredentialAuth {
  /** Adds the credentials to a launch; they override configured variables of the same name. */
  addTo(launch: ServerLaunch, session: Session, server: StdioServer): ServerLaunch;
  /** Describes the launch for display: names the variables that are credentials, without their values. */
  describe(launch: ServerLaunch, session: Session, server: StdioServer): ServerLaunch;
  headers(session: Session, server: HttpServer): AuthValues;
  hasAny(session: Session, server: ServerDefinition): boolean;
  /** Differs between users and with every change; empty where the server gets no credential. */
  revision(session: Session, server: ServerDefinition): string;
}

interface CredentialAuthOptions {
  /** Undefined where no server gets credentials. */
  readonly credentials: Credentials | undefined;
  readonly prefixes: () => readonly string[];
  readonly isApproved: (server: ServerDefinition) => boolean;
}

export function createCredentialAuth({ credentials, prefixes, isApproved }: CredentialAuthOptions): CredentialAuth {
  /** The credentials, where this server may get those of the user. */
  function credentialsFor({ userId }: Session, server: ServerDefinition): Credentials | undefined {
    if (credentials === undefined || userId === anonymousUser || !isForOneUser(server)) return undefined;
    if (credentials.listTargets(userId, server.name).length === 0) return undefined;
    return isApproved(server) ? credentials : undefined;
  }

  function readValues(session: Session, server: ServerDefinition, kind: 'env' | 'header'): Record<string, string> {
    const values: Record<string, string> = {};
    for (const each of credentialsFor(session, server)?.read(session.userId, server.name) ?? []) {
      const why =
        each.kind === kind
          ? findNameProblem(kind, each.name, prefixes())
          : 'the server does not support this kind of credential';
      if (why !== undefined) {
        throw new AmbitError('CREDENTIAL_UNUSABLE', {
          what: `The credential ${each.name} for the server "${server.name}": ${why}.`,
        });
      }
      values[each.name] = each.value;
    }
    return values;
  }

  function listNames(session: Session, server: ServerDefinition): string[] {
    return (credentialsFor(session, server)?.listTargets(session.userId, server.name) ?? []).map(({ name }) => name);
  }

  return {
    addTo(launch, session, server) {
      const values = readValues(session, server, 'env');
      return Object.keys(values).length === 0
        ? launch
        : withCredentialOrigin(launch, { ...launch.env, ...values }, values);
    },
    describe(launch, session, server) {
      const own = listNames(session, server);
      if (own.length === 0) return launch;
      const shown = Object.entries(launch.env).filter(([name]) => !own.includes(name));
      return withCredentialOrigin(launch, Object.fromEntries(shown), Object.fromEntries(own.map((name) => [name, ''])));
    },
    headers: (session, server) => readValues(session, server, 'header'),
    hasAny: (session, server) => listNames(session, server).length > 0,
    revision(session, server) {
      const revision = credentialsFor(session, server)?.revision(session.userId, server.name);
      return revision === undefined ? '' : JSON.stringify([session.userId, revision]);
    },
  };
}

export const noCredentialAuth = createCredentialAuth({
  credentials: undefined,
  prefixes: () => [],
  isApproved: () => false,
});

function withCredentialOrigin(launch: ServerLaunch, env: AuthValues, credentials: AuthValues): ServerLaunch {
  const origins = Object.fromEntries(Object.keys(credentials).map((name) => [name, 'credential' as const]));
  return { ...launch, env, provenance: { ...launch.provenance, ...origins } };
}
