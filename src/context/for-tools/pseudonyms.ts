import { createHmac } from 'node:crypto';

export type PseudonymKind = 'user' | 'session' | 'agent' | 'workspace' | 'call';

/**
 * Names for servers of third parties: the same for one server each time, another for every other server, and without
 * the secret nobody can tell which two belong together.
 */
export interface Pseudonyms {
  of(kind: PseudonymKind, audience: string, value: string): string;
}

export function createPseudonyms(secret: Buffer): Pseudonyms {
  return {
    of(kind, audience, value) {
      // JSON keeps the parts apart: no value can reach over into its neighbour.
      const digest = createHmac('sha256', secret)
        .update(JSON.stringify([kind, audience, value]))
        .digest('hex');
      return `${kind}-${digest.slice(0, 32)}`;
    },
  };
}
