import type { SessionStore } from '../../stores/store.ts';
import { type HeldDocuments, type Held as HeldOf, holdDocuments } from './held-documents.ts';
import { readSealed, type Sealed } from './seal.ts';

export const collection = 'credentials';

export type Held = HeldOf<Sealed>;

export function holdCredentials(
  store: SessionStore,
  changed: (keyPrefix: string) => Promise<void>,
): Promise<HeldDocuments<Sealed>> {
  return holdDocuments(store, collection, readSealed, changed);
}
