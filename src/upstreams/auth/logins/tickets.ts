import { decrypt, encrypt } from '../seal.ts';
import type { SealingKeys } from '../sealing-key.ts';

/** Part of a link that lets a browser start a login: for one user and one server, for a while. Nothing is kept of it. */
export interface Tickets {
  make(userId: string, server: string): Promise<string>;
  /** Undefined when it was not made here, or ran out. */
  read(ticket: string): { readonly userId: string; readonly server: string } | undefined;
}

const lifeMs = 600_000;
const ivBytes = 12;
const bound = Buffer.from(JSON.stringify(['ambit login link', 1]));

export function createTickets(keys: SealingKeys, now: () => number): Tickets {
  return {
    async make(userId, server) {
      const said = JSON.stringify({ userId, server, until: now() + lifeMs });
      const { iv, data } = encrypt(said, await keys.make(), bound);
      return Buffer.concat([iv, data]).toString('base64url');
    },
    read(ticket) {
      const key = keys.current();
      const bytes = Buffer.from(ticket, 'base64url');
      if (key === undefined || ticket.length > 4096) return undefined;
      const said = decrypt({ iv: bytes.subarray(0, ivBytes), data: bytes.subarray(ivBytes) }, key, bound);
      if (said === undefined) return undefined;
      const { userId, server, until } = JSON.parse(said) as { userId: string; server: string; until: number };
      return until > now() ? { userId, server } : undefined;
    },
  };
}
