import { digestsEqual } from '../identity/token.ts';
import type { EndReason, Session } from './session.ts';

const kept = 10_000;

/** Remembers why sessions are gone, so that whoever still holds a token is told; to everyone else they never were. */
export function createTombstones() {
  const graves = new Map<string, { readonly digests: readonly string[]; readonly reason: EndReason }>();
  return {
    bury(session: Session, reason: EndReason): void {
      graves.set(session.id, { digests: session.tokenDigests, reason });
      if (graves.size > kept) {
        const oldest = graves.keys().next();
        if (!oldest.done) graves.delete(oldest.value);
      }
    },
    reasonFor(id: string, digest: string): EndReason | undefined {
      const grave = graves.get(id);
      return grave?.digests.some((each) => digestsEqual(each, digest)) ? grave.reason : undefined;
    },
  };
}
