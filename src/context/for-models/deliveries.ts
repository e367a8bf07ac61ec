import { anonymousUser } from '../../identity/principal.ts';
import { within } from '../../lib/async/within.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Delivery, Reply } from '../../protocol/channel.ts';
import { readMessage } from '../../protocol/message.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { BlockSigner } from './context-block.ts';
import { type Claim, claim } from './delivery-claims.ts';
import { contentOf, isReadableResult, withFirstBlock } from './edit-results.ts';
import type { Edition, InUse } from './governance-state.ts';

/** Whom a reply goes to: a transport session in the handshake era, the session itself in the modern one. */
export interface Recipient {
  readonly sessionId: string;
  readonly userId: string;
  readonly workspaceId: string | undefined;
  readonly transportId: string | undefined;
}

/** What there is to say to somebody now. */
export interface Sayable {
  readonly block: string;
  readonly notice: string;
  /** Of all of it; another when anything in it is another. */
  readonly revision: string;
}

/** A content block in JSON, for whoever says afterwards what became of it. */
export interface Taken {
  readonly block: string;
  readonly delivery: Delivery;
}

export interface Deliveries {
  /** In the modern era a long silence makes the block due again. Undefined where there is nothing to ask for. */
  arrived(sessionId: string, createdAt: number): Promise<void> | undefined;
  /** The reply as it is when nothing is due: after the first time that is a look into memory. */
  carry(to: Recipient, reply: Reply): Reply | Promise<Reply>;
  /** The same for whoever puts it into a result by hand. Undefined when nothing is due. */
  take(to: Recipient): Promise<Taken | undefined> | undefined;
  /** The transport session is over. */
  forget(sessionId: string, transportId: string): Promise<void>;
  /** Resolves when all that was delivered is written down. */
  close(): Promise<void>;
}

export interface DeliveriesOptions {
  readonly store: Pick<SessionStore, 'get' | 'marks' | 'watch'>;
  readonly inUse: InUse;
  readonly sayTo: (to: Recipient) => Promise<Sayable>;
  readonly sign: BlockSigner;
  readonly log: Pick<Log, 'warn'>;
  readonly told?: (to: Recipient, kind: 'block' | 'notice') => void;
  readonly now?: () => number;
}

/** What this process knows of one recipient. */
interface Told {
  /** Nothing is due as long as this is what holds. */
  settled: Edition | undefined;
  /** A reply of this process is on its way with it. */
  carrying: boolean;
  /** What is still being written about it. */
  writing: Promise<void>;
  lastAt: number;
}

type MessageReply = Extract<Reply, { kind: 'message' }>;

const idleMs = 30 * 60_000;
const mostHeld = 20_000;
const retryMs = 250;
const mostTries = 20;
const warnEveryMs = 60_000;
const writingMs = 1000;
const ofSession = 'session';

export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { store, inUse, sayTo, sign, log } = options;
  const { marks } = store;
  const now = options.now ?? Date.now;
  const bySession = new Map<string, Told>();
  const byTransport = new Map<string, Told>();
  const underWay = new Set<Promise<void>>();
  const warnedAt = new Map<string, number>();
  let closed = false;

  const stop = store.watch((change) => {
    if (change.kind === 'ended') bySession.delete(change.id);
  });

  function toldOf({ sessionId, transportId }: Recipient): Told {
    const held = transportId === undefined ? bySession : byTransport;
    const key = transportId ?? sessionId;
    const known = held.get(key);
    if (known !== undefined) return known;
    const told: Told = { settled: undefined, carrying: false, writing: Promise.resolve(), lastAt: now() };
    // What is forgotten is asked for again.
    if (held.size >= mostHeld) held.delete(held.keys().next().value as string);
    held.set(key, told);
    return told;
  }

  /** Until it is done, or long enough: what was said stays said here, whatever becomes of the store. */
  function write(told: Told, work: () => Promise<unknown>): void {
    const writing = told.writing.then(() => again(work)).finally(() => underWay.delete(writing));
    told.writing = writing;
    underWay.add(writing);
  }

  async function again(work: () => Promise<unknown>): Promise<void> {
    for (let tries = 0; tries < (closed ? 2 : mostTries); tries++) {
      try {
        await work();
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, retryMs).unref());
      }
    }
  }

  /** Once a minute says as much as once a call. */
  function seldom(what: 'anonymous' | 'unresolved', warn: () => void): void {
    if (now() - (warnedAt.get(what) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return;
    warnedAt.set(what, now());
    warn();
  }

  async function record(to: Recipient, kind: 'block' | 'notice', revision: string, held: Claim): Promise<void> {
    const key = `${kind}:${to.transportId ?? ofSession}`;
    const put = await marks.put(to.sessionId, key, revision);
    if (kind === 'notice' && put.outcome === 'present' && put.value !== revision) {
      await marks.delete(to.sessionId, key);
      await marks.put(to.sessionId, key, revision);
    }
    await held.release(true);
  }

  /** The last revision that was given, in this process or another. */
  async function lastGiven({ sessionId, transportId }: Recipient): Promise<string | undefined> {
    const key = transportId ?? ofSession;
    const first = await marks.get(sessionId, `block:${key}`);
    return first === undefined ? undefined : ((await marks.get(sessionId, `notice:${key}`)) ?? first);
  }

  /** Undefined when nothing is due; `later` when another is just telling it. */
  async function dueTo(to: Recipient): Promise<Due | 'later' | undefined> {
    if (to.userId === anonymousUser) {
      if (await inUse.look())
        seldom('anonymous', () => log.warn('no policies for anonymous callers', { session: to.sessionId }));
      return undefined;
    }
    const given = await lastGiven(to);
    if (given === undefined && !(await inUse.look())) return undefined;
    const { block, notice, revision } = await sayTo(to);
    if (given === revision) return undefined;
    const kind = given === undefined ? 'block' : 'notice';
    const what = `${to.transportId ?? ofSession}:${kind === 'block' ? kind : revision}`;
    const held = await claim(marks, to.sessionId, what, now);
    if (held === 'taken') return 'later';
    // Whoever had the claim before may have told it meanwhile.
    if ((await lastGiven(to)) === given)
      return { kind, text: kind === 'block' ? block : notice, revision, claim: held };
    await held.release(false);
    return 'later';
  }

  /** What is due, as a content block in JSON, and whom to tell whether it got there; undefined for nothing. */
  async function taken(to: Recipient, told: Told): Promise<Taken | undefined> {
    const edition = inUse.edition();
    told.carrying = true;
    let handedOver = false;
    try {
      await within(told.writing, writingMs);
      const due = await dueTo(to);
      if (due === undefined) told.settled = edition;
      if (due === undefined || due === 'later') return undefined;
      const block = sign(due.text, { sessionId: to.sessionId, userId: to.userId, kind: due.kind });
      handedOver = true;
      const over = once((delivered: boolean) => {
        told.carrying = false;
        if (delivered) {
          told.settled = edition;
          options.told?.(to, due.kind);
        }
        write(told, () => (delivered ? record(to, due.kind, due.revision, due.claim) : due.claim.release(false)));
      });
      return { block, delivery: { delivered: () => over(true), lost: () => over(false) } };
    } catch (error) {
      const which = { session: to.sessionId, user: to.userId, error: String(error) };
      seldom('unresolved', () => log.warn('policies cannot be resolved', which));
      return undefined;
    } finally {
      if (!handedOver) told.carrying = false;
    }
  }

  async function carried(to: Recipient, told: Told, reply: MessageReply): Promise<Reply> {
    const message = readMessage(reply.bytes);
    const content = contentOf(message, to.transportId === undefined);
    // A question to the client, or an error of the protocol: the next result will do.
    if (content === undefined) return reply;
    const due = await taken(to, told);
    if (due === undefined) return reply;
    const { lost } = due.delivery;
    // A client that cannot read the result does not see the block either: then it comes with the next as well.
    const delivery = isReadableResult(message) ? due.delivery : { delivered: lost, lost };
    return { ...reply, bytes: withFirstBlock(message, content, due.block), delivery };
  }

  /** Undefined where nothing can be due, as far as is known here. */
  function concerned(to: Recipient): Told | undefined {
    const { sessionId, transportId } = to;
    const edition = inUse.edition();
    const known = transportId === undefined ? bySession.get(sessionId) : byTransport.get(transportId);
    if (known === undefined) return inUse.known() === false ? undefined : toldOf(to);
    return known.settled === edition || known.carrying ? undefined : known;
  }

  async function look(sessionId: string): Promise<void> {
    const told = toldOf({ sessionId, transportId: undefined, userId: '', workspaceId: undefined });
    const at = now();
    const record = await store.get(sessionId).catch(() => undefined);
    told.lastAt = at;
    // Others may have told it more since, or be telling it again.
    told.settled = undefined;
    if (record === undefined || at - record.lastActiveAt < idleMs) return;
    const put = await marks.put(sessionId, `idle:${record.lastActiveAt}`).catch(() => undefined);
    if (put?.outcome !== 'put') return;
    for (const key of [`block:${ofSession}`, `notice:${ofSession}`]) await marks.delete(sessionId, key).catch(() => {});
  }

  return {
    arrived(sessionId, createdAt) {
      if (inUse.known() === false) return undefined;
      const told = bySession.get(sessionId);
      const at = now();
      if (at - (told?.lastAt ?? createdAt) >= idleMs) return look(sessionId);
      if (told !== undefined) told.lastAt = at;
      return undefined;
    },

    take(to) {
      const told = concerned(to);
      return told === undefined ? undefined : taken(to, told);
    },

    carry(to, reply) {
      const told = reply.kind === 'message' ? concerned(to) : undefined;
      return told === undefined ? reply : carried(to, told, reply as MessageReply);
    },

    async forget(sessionId, transportId) {
      byTransport.delete(transportId);
      for (const kind of ['block', 'notice']) await marks.delete(sessionId, `${kind}:${transportId}`).catch(() => {});
    },

    async close() {
      closed = true;
      stop();
      await Promise.all([...underWay]);
    },
  };
}

interface Due {
  readonly kind: 'block' | 'notice';
  readonly text: string;
  readonly revision: string;
  readonly claim: Claim;
}

function once(work: (delivered: boolean) => void): (delivered: boolean) => void {
  let done = false;
  return (delivered) => {
    if (done) return;
    done = true;
    work(delivered);
  };
}
