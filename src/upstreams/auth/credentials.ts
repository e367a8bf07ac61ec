import { AmbitError } from '../../errors.ts';
import type { SessionStore } from '../../stores/store.ts';
import { type CredentialPlace, checkValue, keyOf, keyPrefix } from './credential-target.ts';
import { type HeldDocuments, type Held as HeldOf, holdDocuments } from './document-cache.ts';
import { readSealed, type Sealed, seal, unseal } from './seal.ts';
import type { SealingKeys } from './sealing-key.ts';

const collection = 'credentials';

type Held = HeldOf<Sealed>;

export interface Credential extends CredentialPlace {
  readonly value: string;
}

/** What may be shown of a credential: everything but its value. */
export interface CredentialView {
  readonly userId: string;
  readonly server: string;
  readonly env?: string;
  readonly header?: string;
  readonly setAt: string;
  /** False when it cannot be opened with the key that is here. */
  readonly usable: boolean;
}

/** What upstreams need on behalf of users: sealed in the store, opened where it is given and nowhere else. */
export interface Credentials {
  /** What this server is given for this user. Throws when one of them cannot be opened: then the server gets none. */
  of(userId: string, server: string): readonly Credential[];
  /** The same without opening them. */
  placesOf(userId: string, server: string): readonly Pick<CredentialPlace, 'kind' | 'name'>[];
  /** Another with every change of what `of` answers; empty when that is nothing. */
  revision(userId: string, server: string): string;
  /** Takes the place of what was there. Resolves when whatever was given the old one has followed. */
  set(place: CredentialPlace, value: string): Promise<void>;
  /** False when there was none. */
  remove(place: CredentialPlace): Promise<boolean>;
  list(): CredentialView[];
  /** Tells which user's credentials for which server have changed, here or in another process. */
  onChange(listener: (concerns: (userId: string, server: string) => boolean, server: string) => Promise<void>): void;
  close(): void;
}

type Listener = Parameters<Credentials['onChange']>[0];

export async function openCredentials(store: SessionStore, keys: SealingKeys): Promise<Credentials> {
  const listeners = new Set<Listener>();
  const held = await holdCredentials(store, async (prefix) => {
    const server = prefix.split('/')[1] ?? '';
    const concerns = (userId: string, name: string) => keyPrefix({ userId, server: name }) === prefix;
    await Promise.all([...listeners].map((listener) => listener(concerns, server)));
  });

  function opened({ key, sealed }: Held): Credential {
    const secret = keys.current();
    const value = sealed === undefined || secret === undefined ? undefined : unseal(sealed, secret);
    if (sealed !== undefined && value !== undefined) return { ...sealed.place, value };
    const [, server, , name] = key.split('/');
    const why =
      sealed === undefined || sealed.keyId === secret?.id
        ? 'it is not what was stored'
        : 'it was stored with another key';
    throw new AmbitError('CREDENTIAL_UNUSABLE', { what: `The credential ${name} for the server "${server}": ${why}.` });
  }

  /** Two keys on one store are a mistake that would show only when a server starts elsewhere. */
  function assertSameKey(id: string): void {
    if (held.all().every(({ sealed }) => sealed === undefined || sealed.keyId === id)) return;
    throw new AmbitError('CREDENTIAL_UNUSABLE', {
      what: 'The store holds credentials that were stored with another key than the one here.',
      hint: 'Give all machines the same key (AMBIT_CREDENTIALS_KEY), or remove those credentials first.',
    });
  }

  return {
    of: (userId, server) => held.under(keyPrefix({ userId, server })).map(opened),

    placesOf: (userId, server) =>
      held.under(keyPrefix({ userId, server })).map(({ key }) => {
        const [, , kind, name = ''] = key.split('/');
        return { kind: kind as CredentialPlace['kind'], name };
      }),

    revision: (userId, server) =>
      held
        .under(keyPrefix({ userId, server }))
        .map(({ version }) => version)
        .sort((a, b) => a - b)
        .join('.'),

    async set(place, value) {
      checkValue(place.kind, value);
      const existing = keys.current();
      if (existing !== undefined || held.all().length > 0) assertSameKey(existing?.id ?? '');
      const key = existing ?? (await keys.make());
      const written = await store.documents.put(collection, keyOf(place), seal(place, value, key, Date.now()));
      if (written.outcome !== 'written') {
        throw new AmbitError('REQUEST_INVALID', { what: 'There is no room for a further credential.' });
      }
      await held.refresh(keyOf(place));
    },

    async remove(place) {
      const { outcome } = await store.documents.delete(collection, keyOf(place));
      await held.refresh(keyOf(place));
      return outcome === 'deleted';
    },

    list() {
      const secret = keys.current();
      const views = held.all().map(({ key, sealed }): CredentialView => {
        const [, server = '', kind = '', name] = key.split('/');
        // Whose it was stands in what was stored; it can still be removed by whoever knows.
        if (sealed === undefined) return { userId: '(unreadable)', server, [kind]: name, setAt: '', usable: false };
        const usable = secret !== undefined && unseal(sealed, secret) !== undefined;
        const { userId } = sealed.place;
        return { userId, server, [kind]: name, setAt: new Date(sealed.setAt).toISOString(), usable };
      });
      const orderOf = ({ userId, server, env, header }: CredentialView) =>
        JSON.stringify([userId, server, env ?? header]);
      return views.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
    },

    onChange: (listener) => void listeners.add(listener),
    close: held.close,
  };
}

function holdCredentials(
  store: SessionStore,
  changed: (keyPrefix: string) => Promise<void>,
): Promise<HeldDocuments<Sealed>> {
  return holdDocuments(store, collection, readSealed, changed);
}
