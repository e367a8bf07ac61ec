import { hash, randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { crc32 } from 'node:zlib';
import { createKeyedMutex } from '../../lib/async/mutex.ts';
import type { SessionMarks } from '../../stores/state.ts';
import type { SessionStore } from '../../stores/store.ts';

/** The traits of a modern client, read in each of its requests: no transport session tells it from others. */
export interface ClientTraits {
  /** The credential of the request, or what stands for it. */
  readonly credential: string;
  readonly principal: { readonly kind: string; readonly userId: string };
  /** The host's own name for the conversation. */
  readonly hint: string | undefined;
  /** The client's own description of itself. */
  readonly clientInfo: string | undefined;
}

/** The part of `clientInfo` that counts. Names and versions are short; icons are not. */
export const maxInfoLength = 1024;

/**
 * Computes the id of a client within a session. Clients write hint and information themselves, so only a hash of them is
 * kept. Its key is the digest of the session's first token, which all processes have in the record of the session.
 */
export function computeClientId(
  { id, tokenDigests }: { readonly id: string; readonly tokenDigests: readonly string[] },
  { credential, principal, hint, clientInfo = '' }: ClientTraits,
): string {
  const parts =
    hint === undefined
      ? ['info', credential, clientInfo.slice(0, maxInfoLength)]
      : ['hint', principal.kind, principal.userId, hint];
  // It is computed for each call, and an HMAC costs four times as much. Half of the digest cannot be continued.
  return hash('sha256', `${tokenDigests[0] ?? id} ${JSON.stringify(parts)}`, 'base64url').slice(0, 22);
}

/** The place of a client among those that the store remembers of a session. */
export interface ClientSlot {
  readonly key: string;
  /** A new one whenever the slot is taken. Notes with another epoch are about an earlier client, or earlier connection. */
  readonly epoch: string;
}

/**
 * Remembers the clients of sessions in the store: a fixed number for each session, because a client may call itself
 * something else with each request. Then the client that connected first is forgotten.
 */
export interface ClientSlots {
  find(sessionId: string, clientId: string): Promise<ClientSlot | undefined>;
  /** Takes a slot for a client that has none. Undefined when the session is gone. */
  take(sessionId: string, clientId: string): Promise<ClientSlot | undefined>;
  isCurrent(sessionId: string, slot: ClientSlot): Promise<boolean>;
  /** Forgets a client. False when it was not known. */
  forget(sessionId: string, clientId: string): Promise<boolean>;
  /** Forgets all clients that were known at this time. */
  forgetAll(sessionId: string, at: number): Promise<void>;
}

interface HeldSlot extends ClientSlot {
  readonly clientId: string;
  readonly takenAt: number;
}

export const maxClients = 32;
const maxTries = 8;
const maxMarkBytes = 4096;
const slotKeys = Array.from({ length: maxClients }, (_, index) => `client-${index}`);

export function createClientSlots(marks: SessionMarks, now: () => number): ClientSlots {
  const runExclusive = createKeyedMutex();

  async function readSlots(sessionId: string): Promise<HeldSlot[]> {
    const values = await Promise.all(slotKeys.map((key) => marks.get(sessionId, key)));
    return values.flatMap((value, index) => {
      const [clientId, epoch] = value?.split(' ') ?? [];
      if (clientId === undefined || epoch === undefined) return [];
      return [{ key: slotKeys[index] as string, clientId, epoch, takenAt: Number.parseInt(epoch, 36) }];
    });
  }

  async function findSlot(sessionId: string, clientId: string): Promise<HeldSlot | undefined> {
    return (await readSlots(sessionId)).find((slot) => slot.clientId === clientId);
  }

  async function takeSlot(sessionId: string, clientId: string): Promise<ClientSlot | undefined> {
    for (let tries = 0; tries < maxTries; tries++) {
      const held = await readSlots(sessionId);
      const own = held.find((slot) => slot.clientId === clientId);
      if (own !== undefined) return own;
      let key = slotKeys.find((each) => held.every((slot) => slot.key !== each));
      if (key === undefined) {
        key = held.reduce((a, b) => (a.takenAt <= b.takenAt ? a : b)).key;
        await marks.delete(sessionId, key);
      }
      const epoch = `${now().toString(36)}.${randomBytes(6).toString('base64url')}`;
      const { outcome } = await marks.put(sessionId, key, `${clientId} ${epoch}`);
      if (outcome === 'put') return { key, epoch };
      // Another process was faster: it may have taken the slot for the same client.
      if (outcome !== 'present') return undefined;
    }
    return undefined;
  }

  return {
    find: findSlot,

    // One at a time: among many new clients of a session, some would never win a slot.
    take: (sessionId, clientId) => runExclusive(sessionId, () => takeSlot(sessionId, clientId)),

    async isCurrent(sessionId, { key, epoch }) {
      return (await marks.get(sessionId, key))?.endsWith(` ${epoch}`) === true;
    },

    async forget(sessionId, clientId) {
      const slot = await findSlot(sessionId, clientId);
      return slot !== undefined && marks.delete(sessionId, slot.key);
    },

    async forgetAll(sessionId, at) {
      for (const { key, takenAt } of await readSlots(sessionId)) if (takenAt <= at) await marks.delete(sessionId, key);
    },
  };
}

/** A delivery of the block to one client. */
export interface NotedDelivery {
  readonly at: number;
  /** The slot of a modern client, or the beginning of the id of a handshake-era connection. */
  readonly to: string;
  readonly era: 'modern' | 'handshake';
  readonly kind: 'block' | 'notice';
  readonly revision: string;
}

const deliveriesKey = 'deliveries';
export const maxNotedDeliveries = 16;

/** Notes a delivery for people who look at the session. The oldest notes make room. */
export async function noteDelivery(marks: SessionMarks, sessionId: string, delivery: NotedDelivery): Promise<void> {
  for (let tries = 0; tries < maxTries; tries++) {
    const noted = [delivery, ...(await listDeliveries(marks, sessionId))].slice(0, maxNotedDeliveries);
    while (Buffer.byteLength(JSON.stringify(noted)) > maxMarkBytes) noted.pop();
    await marks.delete(sessionId, deliveriesKey);
    // Another process may write at the same time; then its notes are read again.
    if ((await marks.put(sessionId, deliveriesKey, JSON.stringify(noted))).outcome !== 'present') return;
  }
}

/** Lists the noted deliveries of a session, the newest first. */
export async function listDeliveries(marks: SessionMarks, sessionId: string): Promise<NotedDelivery[]> {
  const text = await marks.get(sessionId, deliveriesKey);
  return text === undefined ? [] : (JSON.parse(text) as NotedDelivery[]);
}

/**
 * Tells all processes on a store that a client has connected again, since each of them remembers what it has delivered.
 * The change feed reports documents, so there is a fixed number of documents, each for many sessions.
 */
export interface ReconnectFeed {
  /** A number that rises when a client of this session, or of some others, has connected again. */
  count(sessionId: string): number;
  announce(sessionId: string): Promise<void>;
  close(): void;
}

const collection = 'reconnects';
const documentCount = 256;

export function createReconnectFeed({ documents, watch }: Pick<SessionStore, 'documents' | 'watch'>): ReconnectFeed {
  const counts: number[] = Array.from({ length: documentCount }, () => 0);
  const findIndex = (sessionId: string) => crc32(sessionId) % documentCount;
  const stop = watch((change) => {
    if (change.kind !== 'document' || change.collection !== collection) return;
    const index = Number(change.key);
    counts[index] = (counts[index] ?? 0) + 1;
  });
  return {
    count: (sessionId) => counts[findIndex(sessionId)] as number,
    announce: async (sessionId) => void (await documents.put(collection, String(findIndex(sessionId)), '{}')),
    close: stop,
  };
}

/** The exclusive right to deliver something to a client. */
export interface DeliveryClaim {
  /** Releases the claim. `delivered` means that the delivery is recorded, so earlier claims are removed as well. */
  release(delivered: boolean): Promise<void>;
}

interface ClaimMark {
  readonly host: string;
  readonly pid: number;
  readonly until: number;
}

const leaseMs = 10_000;
const maxTakeovers = 16;

/**
 * Claims a delivery, so that one of several callers in any number of processes makes it. A claim whose owner died, or
 * that is older than its lease, is taken over with the next mark in a row: a mark is never overwritten, and only one
 * caller is first to put the next. Only its owner removes a claim.
 */
export async function claimDelivery(
  marks: SessionMarks,
  sessionId: string,
  what: string,
  now: () => number,
): Promise<DeliveryClaim | 'taken'> {
  const own: ClaimMark = { host: hostname(), pid: process.pid, until: now() + leaseMs };
  for (let index = 0; index < maxTakeovers; index++) {
    const put = await marks.put(sessionId, `claim:${what}:${index}`, JSON.stringify(own));
    if (put.outcome === 'put') {
      return {
        async release(delivered) {
          for (let each = index; each >= (delivered ? 0 : index); each--) {
            await marks.delete(sessionId, `claim:${what}:${each}`);
          }
        },
      };
    }
    if (put.outcome !== 'present' || isClaimAlive(put.value, now())) return 'taken';
  }
  return 'taken';
}

function isClaimAlive(value: string, at: number): boolean {
  try {
    const { host, pid, until } = JSON.parse(value) as ClaimMark;
    return until > at && (host !== hostname() || isProcessRunning(pid));
  } catch {
    return false;
  }
}

function isProcessRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
