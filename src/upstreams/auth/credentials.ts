import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import {
  assertCredentialValue,
  type CredentialTarget,
  credentialKey,
  credentialKeyPrefix,
} from './credential-target.ts';
import { type DocumentCache, type CachedDocument as HeldOf, openDocumentCache } from './document-cache.ts';
import { readSealedCredential, type SealedCredential, sealCredential, unsealCredential } from './seal.ts';
import type { SealingKeys } from './sealing-key.ts';

const credentialsCollection = 'credentials';

type CachedCredential = HeldOf<SealedCredential>;

interface OpenedCredential extends CredentialTarget {
  readonly value: string;
}

/** A credential without its value. */
export interface CredentialView {
  readonly userId: string;
  readonly server: string;
  readonly env?: string;
  readonly header?: string;
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
  set(place: CredentialTarget, value: string): Promise<void>;
  /** False when there was none. */
  remove(place: CredentialTarget): Promise<boolean>;
  list(): CredentialView[];
  /** Reports changed credentials, also those that another process has changed. */
  onChange(listener: (concerns: (userId: string, server: string) => boolean, server: string) => Promise<void>): void;
  close(): void;
}

type CredentialListener = Parameters<Credentials['onChange']>[0];

export async function openCredentials(store: SessionStore, keys: SealingKeys): Promise<Credentials> {
  const listeners = new Set<CredentialListener>();
  const cache = await openCredentialCache(store, async (prefix) => {
    const server = prefix.split('/')[1] ?? '';
    const concerns = (userId: string, name: string) => credentialKeyPrefix({ userId, server: name }) === prefix;
    await Promise.all([...listeners].map((listener) => listener(concerns, server)));
  });

  function openCredential({ key, sealed }: CachedCredential): OpenedCredential {
    const secret = keys.current();
    const value = sealed === undefined || secret === undefined ? undefined : unsealCredential(sealed, secret);
    if (sealed !== undefined && value !== undefined) return { ...sealed.target, value };
    const [, server, , name] = key.split('/');
    const why =
      sealed === undefined || sealed.keyId === secret?.id
        ? 'it is not what was stored'
        : 'it was stored with another key';
    throw new AmbitError('CREDENTIAL_UNUSABLE', { what: `The credential ${name} for the server "${server}": ${why}.` });
  }

  /** Refuses a second key on one store: the mistake would show only when a server starts on another machine. */
  function assertSameKey(id: string): void {
    if (cache.listAll().every(({ sealed }) => sealed === undefined || sealed.keyId === id)) return;
    throw new AmbitError('CREDENTIAL_UNUSABLE', {
      what: 'The store holds credentials that were stored with another key than the one here.',
      hint: 'Give all machines the same key (AMBIT_CREDENTIALS_KEY), or remove those credentials first.',
    });
  }

  return {
    read: (userId, server) => cache.listUnder(credentialKeyPrefix({ userId, server })).map(openCredential),

    listTargets: (userId, server) =>
      cache.listUnder(credentialKeyPrefix({ userId, server })).map(({ key }) => {
        const [, , kind, name = ''] = key.split('/');
        return { kind: kind as CredentialTarget['kind'], name };
      }),

    revision: (userId, server) =>
      cache
        .listUnder(credentialKeyPrefix({ userId, server }))
        .map(({ version }) => version)
        .sort((a, b) => a - b)
        .join('.'),

    async set(place, value) {
      assertCredentialValue(place.kind, value);
      const existing = keys.current();
      if (existing !== undefined || cache.listAll().length > 0) assertSameKey(existing?.id ?? '');
      const key = existing ?? (await keys.make());
      const written = await store.documents.put(
        credentialsCollection,
        credentialKey(place),
        sealCredential(place, value, key, Date.now()),
      );
      if (written.outcome !== 'written') {
        throw new AmbitError('REQUEST_INVALID', { what: 'There is no room for a further credential.' });
      }
      await cache.refresh(credentialKey(place));
    },

    async remove(place) {
      const { outcome } = await store.documents.delete(credentialsCollection, credentialKey(place));
      await cache.refresh(credentialKey(place));
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

    onChange: (listener) => void listeners.add(listener),
    close: cache.close,
  };
}

function openCredentialCache(
  store: SessionStore,
  changed: (keyPrefix: string) => Promise<void>,
): Promise<DocumentCache<SealedCredential>> {
  return openDocumentCache(store, credentialsCollection, readSealedCredential, changed);
}
