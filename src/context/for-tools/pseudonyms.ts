import { createHmac } from 'node:crypto';

export type PseudonymKind = 'user' | 'session' | 'agent' | 'workspace' | 'call';

/** Pseudonyms: stable for one server, different for every other, and unrelated for anyone without the secret. */
export interface Pseudonyms {
  of(kind: PseudonymKind, audience: string, value: string): string;
}

export function createPseudonyms(secret: Buffer): Pseudonyms {
  return {
    of(kind, audience, value) {
      // JSON separates the parts unambiguously.
      const digest = createHmac('sha256', secret)
        .update(JSON.stringify([kind, audience, value]))
        .digest('hex');
      return `${kind}-${digest.slice(0, 32)}`;
    },
  };
}
