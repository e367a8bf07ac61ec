import { anonymousUser } from '../../identity/principal.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import type { DeliveryListener, FinalReply } from '../../protocol/channel.ts';
import { readMessage } from '../../protocol/message.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { BlockSigner } from './context-block.ts';
import {
  type ClientSlot,
  type ClientSlots,
  claimDelivery,
  createClientSlots,
  createReconnectFeed,
  type DeliveryClaim,
  maxClients,
  noteDelivery,
} from './delivery-marks.ts';
import { findContent, insertFirstBlock, isReadableResult } from './edit-results.ts';
import type { GovernanceRevision, GovernanceState } from './governance-state.ts';

/** The recipient of a reply: a transport session in the handshake era, a client of the session in the modern one. */
export interface BlockRecipient {
  readonly sessionId: string;
  readonly userId: string;
  readonly workspaceId: string | undefined;
  readonly transportId: string | undefined;
  /** Computes the id of the client. It is called only in the modern era. */
  clientId(): string;
  /** Tells whether the tool `session_context` is offered at the address of the request. */
  hasContextTool(): boolean;
}

/** The text that one recipient would get now. */
interface RenderedContext {
  /** With `isChange`, the text says that it replaces an earlier one. */
  render(isChange: boolean): string;
  /** Changes whenever anything in the block changes. */
  readonly revision: string;
}

/** A content block in JSON. Its taker reports afterwards whether it was delivered. */
interface PendingBlock {
  readonly block: string;
  readonly delivery: DeliveryListener;
}

export interface Deliveries {
  /** Notes a request. In the modern era a long silence makes the block due again. Undefined when nothing needs the store. */
  touch(sessionId: string, createdAt: number): Promise<void> | undefined;
  /** Puts what is due before the reply. Returns the same reply when nothing is due; later calls need only memory. */
  prependIfDue(to: BlockRecipient, reply: FinalReply): FinalReply | Promise<FinalReply>;
  /** Makes the block due again for a modern client that has connected again. */
  reconnect(client: Pick<BlockRecipient, 'sessionId' | 'clientId'>): Promise<void>;
  /** Forgets a transport session that is over. */
  forget(sessionId: string, transportId: string): Promise<void>;
  /** Resolves when everything that was delivered is recorded. */
  close(): Promise<void>;
}

interface DeliveriesOptions {
  readonly store: Pick<SessionStore, 'get' | 'marks' | 'documents' | 'watch'>;
  readonly state: GovernanceState;
  readonly renderFor: (to: BlockRecipient) => Promise<RenderedContext>;
  readonly signBlock: BlockSigner;
  readonly log: Pick<Log, 'warn'>;
  readonly onDelivered?: (to: BlockRecipient, kind: 'block' | 'notice') => void;
  readonly now?: () => number;
}

/** The state of one recipient in this process. */
interface DeliveryState {
  /** Nothing is due while this is the current revision. */
  deliveredRevision: GovernanceRevision | undefined;
  /** The state is of no use any more when this count has changed: the client may have connected again. */
  readonly reconnects: number;
  /** True while a reply of this process carries the block. */
  isDelivering: boolean;
  writing: Promise<void>;
}

/** The modern clients of one session that this process knows. */
interface SessionClients {
  readonly states: Map<string, DeliveryState>;
  lastAt: number;
}

interface DueText {
  readonly kind: 'block' | 'notice';
  readonly text: string;
  readonly revision: string;
  readonly slot: ClientSlot;
  readonly claim: DeliveryClaim;
}

type MessageReply = Extract<FinalReply, { kind: 'message' }>;

const idleMs = 30 * 60_000;
const maxTransports = 20_000;
const maxSessions = 20_000;
const retryMs = 250;
const maxTries = 20;
const warnEveryMs = 60_000;
const writingMs = 1000;

export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { store, state: governance, signBlock, log } = options;
  const { marks } = store;
  const now = options.now ?? Date.now;
  const bySession = new Map<string, SessionClients>();
  const byTransport = new Map<string, DeliveryState>();
  const slots = createClientSlots(marks, now);
  const reconnects = createReconnectFeed(store);
  const warnAtMostEvery = createRareWarning(now);
  const findDue = createDueFinder({ ...options, slots, now, warnAtMostEvery });
  const writes = createWriteQueue();

  const stop = store.watch((change) => {
    if (change.kind === 'ended') bySession.delete(change.id);
  });

  function ensureClients(sessionId: string): SessionClients {
    const known = bySession.get(sessionId);
    if (known !== undefined) return known;
    const clients = { states: new Map(), lastAt: now() };
    addBounded(bySession, sessionId, clients, maxSessions);
    return clients;
  }

  /** The state of a recipient to whom something may be due; undefined where memory already says that nothing is. */
  function findPendingState(to: BlockRecipient): DeliveryState | undefined {
    const { sessionId, transportId } = to;
    const isInactive = governance.isActive() === false;
    if (transportId === undefined && isInactive && !bySession.has(sessionId)) return undefined;
    const states = transportId === undefined ? ensureClients(sessionId).states : byTransport;
    const key = transportId === undefined ? to.clientId() : toTransportKey(sessionId, transportId);
    const known = states.get(key);
    const count = reconnects.count(sessionId);
    if (known?.reconnects === count)
      return known.isDelivering || known.deliveredRevision === governance.revision() ? undefined : known;
    if (known === undefined && isInactive) return undefined;
    const state = { deliveredRevision: undefined, reconnects: count, isDelivering: false, writing: Promise.resolve() };
    addBounded(states, key, state, transportId === undefined ? maxClients : maxTransports);
    return state;
  }

  /** Takes what is due as a content block in JSON; undefined when nothing is. */
  async function takeDue(to: BlockRecipient, state: DeliveryState): Promise<PendingBlock | undefined> {
    const revision = governance.revision();
    state.isDelivering = true;
    let handedOver = false;
    try {
      await withTimeout(state.writing, writingMs);
      const due = await findDue(to);
      if (due === undefined) state.deliveredRevision = revision;
      if (due === undefined || due === 'later') return undefined;
      const block = signBlock(due.text, { sessionId: to.sessionId, userId: to.userId, kind: 'block' });
      handedOver = true;
      const finish = runOnce((delivered) => {
        state.isDelivering = false;
        if (delivered) {
          state.deliveredRevision = revision;
          options.onDelivered?.(to, due.kind);
        }
        const at = now();
        writes.add(state, () => (delivered ? recordDelivery(marks, slots, to, due, at) : due.claim.release(false)));
      });
      return { block, delivery: { delivered: () => finish(true), lost: () => finish(false) } };
    } catch (error) {
      const fields = { session: to.sessionId, user: to.userId, error: String(error) };
      warnAtMostEvery('unresolved', () => log.warn('policies cannot be resolved', fields));
      return undefined;
    } finally {
      if (!handedOver) state.isDelivering = false;
    }
  }

  async function prependBlock(to: BlockRecipient, state: DeliveryState, reply: MessageReply): Promise<FinalReply> {
    const message = readMessage(reply.bytes);
    const content = findContent(message, to.transportId === undefined);
    // A question to the client and a protocol error have no content: the block goes into the next result.
    if (content === undefined) return reply;
    const due = await takeDue(to, state);
    if (due === undefined) return reply;
    const { lost } = due.delivery;
    // A client that cannot read the result does not see the block either, so the next result carries it again.
    const delivery = isReadableResult(message) ? due.delivery : { delivered: lost, lost };
    return { ...reply, bytes: insertFirstBlock(message, content, due.block), delivery };
  }

  async function resetAfterIdle(sessionId: string): Promise<void> {
    const clients = ensureClients(sessionId);
    const at = now();
    const record = await store.get(sessionId).catch(() => undefined);
    clients.lastAt = at;
    // Another process may have delivered a newer revision, or may be delivering the block again.
    clients.states.clear();
    if (record === undefined || at - record.lastActiveAt < idleMs) return;
    // Clients that another process has met since are not among those of before, however much the clocks differ.
    await slots.forgetAll(sessionId, record.lastActiveAt + idleMs / 2).catch(() => {});
  }

  return {
    touch(sessionId, createdAt) {
      if (governance.isActive() === false) return undefined;
      const clients = bySession.get(sessionId);
      const at = now();
      if (at - (clients?.lastAt ?? createdAt) >= idleMs) return resetAfterIdle(sessionId);
      if (clients !== undefined) clients.lastAt = at;
      return undefined;
    },

    prependIfDue(to, reply) {
      const state = reply.kind === 'message' ? findPendingState(to) : undefined;
      return state === undefined ? reply : prependBlock(to, state, reply as MessageReply);
    },

    async reconnect({ sessionId, clientId }) {
      if (governance.isActive() === false) return;
      const id = clientId();
      // A reply that is on its way goes to the old connection. Its state is not used any more.
      bySession.get(sessionId)?.states.delete(id);
      if (await slots.forget(sessionId, id)) await reconnects.announce(sessionId);
    },

    async forget(sessionId, transportId) {
      byTransport.delete(toTransportKey(sessionId, transportId));
      for (const kind of ['block', 'notice']) await marks.delete(sessionId, `${kind}:${transportId}`).catch(() => {});
    },

    async close() {
      stop();
      reconnects.close();
      await writes.close();
    },
  };
}

/** Adds to a map, in place of its oldest entry if it is full. What is dropped is looked up in the store again. */
function addBounded<T>(map: Map<string, T>, key: string, value: T, max: number): void {
  if (map.size >= max && !map.has(key)) map.delete(map.keys().next().value as string);
  map.set(key, value);
}

/** Several sessions may use one connection. */
function toTransportKey(sessionId: string, transportId: string): string {
  return `${sessionId} ${transportId}`;
}

type RareWarning = (topic: 'anonymous' | 'unresolved', warn: () => void) => void;

/** Warns about each topic at most once a minute. */
function createRareWarning(now: () => number): RareWarning {
  const warnedAt = new Map<string, number>();
  return (topic, warn) => {
    if (now() - (warnedAt.get(topic) ?? Number.NEGATIVE_INFINITY) < warnEveryMs) return;
    warnedAt.set(topic, now());
    warn();
  };
}

interface DueFinderParts extends DeliveriesOptions {
  readonly slots: ClientSlots;
  readonly now: () => number;
  readonly warnAtMostEvery: RareWarning;
}

/** Finds what is due: undefined when nothing is, `later` while another call delivers it. */
function createDueFinder({ state: governance, renderFor, log, slots, now, warnAtMostEvery, store }: DueFinderParts) {
  const { marks } = store;

  /** A transport session needs no slot: the store forgets it when it ends. */
  async function findSlot({ sessionId, transportId, clientId }: BlockRecipient): Promise<ClientSlot | undefined> {
    return transportId === undefined ? slots.find(sessionId, clientId()) : { key: transportId, epoch: '' };
  }

  return async (to: BlockRecipient): Promise<DueText | 'later' | undefined> => {
    const { sessionId } = to;
    if (to.userId === anonymousUser) {
      if (await governance.refresh())
        warnAtMostEvery('anonymous', () => log.warn('no policies for anonymous callers', { session: sessionId }));
      return undefined;
    }
    const known = await findSlot(to);
    const last = known && (await readLastRevision(marks, sessionId, known));
    if (last === undefined && !(await governance.refresh())) return undefined;
    const { render, revision } = await renderFor(to);
    if (last === revision) return undefined;
    const kind = last === undefined ? 'block' : 'notice';
    const slot = known ?? (await slots.take(sessionId, to.clientId()));
    if (slot === undefined) return 'later';
    const subject = `${slot.key}:${slot.epoch}:${kind === 'block' ? kind : revision}`;
    const claim = await claimDelivery(marks, sessionId, subject, now);
    if (claim === 'taken') return 'later';
    // The owner of an earlier claim may have delivered it meanwhile.
    if ((await readLastRevision(marks, sessionId, slot)) === last)
      return { kind, text: render(kind === 'notice'), revision, slot, claim };
    await claim.release(false);
    return 'later';
  };
}

/** The last revision that the holder of a slot got, from this process or another. */
async function readLastRevision(
  marks: SessionStore['marks'],
  sessionId: string,
  { key, epoch }: ClientSlot,
): Promise<string | undefined> {
  const readRevision = async (kind: DueText['kind']) => {
    const [noted, revision] = (await marks.get(sessionId, `${kind}:${key}`))?.split(' ') ?? [];
    return noted === epoch ? revision : undefined;
  };
  const first = await readRevision('block');
  return first === undefined ? undefined : ((await readRevision('notice')) ?? first);
}

async function recordDelivery(
  marks: SessionStore['marks'],
  slots: ClientSlots,
  { sessionId, transportId }: BlockRecipient,
  { kind, revision, slot, claim }: DueText,
  at: number,
): Promise<void> {
  // The client may have connected again while the reply was on its way, or its slot is another client's by now.
  if (transportId !== undefined || (await slots.isCurrent(sessionId, slot))) {
    const key = `${kind}:${slot.key}`;
    const value = `${slot.epoch} ${revision}`;
    const put = await marks.put(sessionId, key, value);
    if (put.outcome === 'present' && put.value !== value) {
      await marks.delete(sessionId, key);
      await marks.put(sessionId, key, value);
    }
  }
  await claim.release(true);
  // Nothing of what a client says about itself is stored, so it has only a number here.
  const client = transportId === undefined ? slot.key : `connection-${transportId.slice(0, 8)}`;
  const era = transportId === undefined ? 'modern' : 'handshake';
  // Only people read these notes, so the delivery counts without them.
  await noteDelivery(marks, sessionId, { at, to: client, era, kind, revision }).catch(() => {});
}

/** Writes of one recipient, one after the other. Failed ones are retried for a while, then given up. */
function createWriteQueue() {
  const underWay = new Set<Promise<void>>();
  let closed = false;

  async function retryWrite(work: () => Promise<unknown>): Promise<void> {
    for (let tries = 0; tries < (closed ? 2 : maxTries); tries++) {
      try {
        await work();
        return;
      } catch {
        await new Promise((resolve) => setTimeout(resolve, retryMs).unref());
      }
    }
  }

  return {
    add(state: DeliveryState, work: () => Promise<unknown>): void {
      const writing = state.writing.then(() => retryWrite(work)).finally(() => underWay.delete(writing));
      state.writing = writing;
      underWay.add(writing);
    },
    async close(): Promise<void> {
      closed = true;
      await Promise.all([...underWay]);
    },
  };
}

function runOnce(work: (delivered: boolean) => void): (delivered: boolean) => void {
  let done = false;
  return (delivered) => {
    if (done) return;
    done = true;
    work(delivered);
  };
}
