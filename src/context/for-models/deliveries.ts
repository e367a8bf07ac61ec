import { anonymousUser } from '../../identity/principal.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import type { DeliveryListener, FinalReply } from '../../protocol/channel.ts';
import { readMessage } from '../../protocol/message.ts';
import type { SessionStore } from '../../stores/store.ts';
import type { BlockSigner } from './context-block.ts';
import { claimDelivery, type DeliveryClaim } from './delivery-claims.ts';
import { findContent, insertFirstBlock, isReadableResult } from './edit-results.ts';
import type { GovernanceRevision, GovernanceState } from './governance-state.ts';

/** The recipient of a reply: a transport session in the handshake era, the session itself in the modern one. */
export interface BlockRecipient {
  readonly sessionId: string;
  readonly userId: string;
  readonly workspaceId: string | undefined;
  readonly transportId: string | undefined;
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
  /** Forgets a transport session that is over. */
  forget(sessionId: string, transportId: string): Promise<void>;
  /** Resolves when everything that was delivered is recorded. */
  close(): Promise<void>;
}

interface DeliveriesOptions {
  readonly store: Pick<SessionStore, 'get' | 'marks' | 'watch'>;
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
  /** True while a reply of this process carries the block. */
  isDelivering: boolean;
  writing: Promise<void>;
  lastAt: number;
}

interface DueText {
  readonly kind: 'block' | 'notice';
  readonly text: string;
  readonly revision: string;
  readonly claim: DeliveryClaim;
}

type MessageReply = Extract<FinalReply, { kind: 'message' }>;

const idleMs = 30 * 60_000;
const maxStates = 20_000;
const retryMs = 250;
const maxTries = 20;
const warnEveryMs = 60_000;
const writingMs = 1000;
const sessionKey = 'session';

export function createDeliveries(options: DeliveriesOptions): Deliveries {
  const { store, state: governance, signBlock, log } = options;
  const { marks } = store;
  const now = options.now ?? Date.now;
  const bySession = new Map<string, DeliveryState>();
  const byTransport = new Map<string, DeliveryState>();
  const warnAtMostEvery = createRareWarning(now);
  const findDue = createDueFinder(options, now, warnAtMostEvery);
  const writes = createWriteQueue();

  const stop = store.watch((change) => {
    if (change.kind === 'ended') bySession.delete(change.id);
  });

  function ensureState({ sessionId, transportId }: Pick<BlockRecipient, 'sessionId' | 'transportId'>): DeliveryState {
    const states = transportId === undefined ? bySession : byTransport;
    const key = transportId === undefined ? sessionId : toTransportKey(sessionId, transportId);
    const known = states.get(key);
    if (known !== undefined) return known;
    const state = { deliveredRevision: undefined, isDelivering: false, writing: Promise.resolve(), lastAt: now() };
    // A recipient whose state was dropped is looked up in the store again.
    if (states.size >= maxStates) states.delete(states.keys().next().value as string);
    states.set(key, state);
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
        writes.add(state, () => (delivered ? recordDelivery(marks, to, due) : due.claim.release(false)));
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

  /** The state of a recipient to whom something may be due; undefined where memory already says that nothing is. */
  function findPendingState(to: BlockRecipient): DeliveryState | undefined {
    const { sessionId, transportId } = to;
    const revision = governance.revision();
    const known =
      transportId === undefined ? bySession.get(sessionId) : byTransport.get(toTransportKey(sessionId, transportId));
    if (known === undefined) return governance.isActive() === false ? undefined : ensureState(to);
    return known.deliveredRevision === revision || known.isDelivering ? undefined : known;
  }

  async function resetAfterIdle(sessionId: string): Promise<void> {
    const state = ensureState({ sessionId, transportId: undefined });
    const at = now();
    const record = await store.get(sessionId).catch(() => undefined);
    state.lastAt = at;
    // Another process may have delivered a newer revision, or may be delivering the block again.
    state.deliveredRevision = undefined;
    if (record === undefined || at - record.lastActiveAt < idleMs) return;
    const put = await marks.put(sessionId, `idle:${record.lastActiveAt}`).catch(() => undefined);
    if (put?.outcome !== 'put') return;
    for (const kind of ['block', 'notice']) await marks.delete(sessionId, `${kind}:${sessionKey}`).catch(() => {});
  }

  return {
    touch(sessionId, createdAt) {
      if (governance.isActive() === false) return undefined;
      const state = bySession.get(sessionId);
      const at = now();
      if (at - (state?.lastAt ?? createdAt) >= idleMs) return resetAfterIdle(sessionId);
      if (state !== undefined) state.lastAt = at;
      return undefined;
    },

    prependIfDue(to, reply) {
      const state = reply.kind === 'message' ? findPendingState(to) : undefined;
      return state === undefined ? reply : prependBlock(to, state, reply as MessageReply);
    },

    async forget(sessionId, transportId) {
      byTransport.delete(toTransportKey(sessionId, transportId));
      for (const kind of ['block', 'notice']) await marks.delete(sessionId, `${kind}:${transportId}`).catch(() => {});
    },

    async close() {
      stop();
      await writes.close();
    },
  };
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

/** Finds what is due: undefined when nothing is, `later` while another call delivers it. */
function createDueFinder(options: DeliveriesOptions, now: () => number, warnAtMostEvery: RareWarning) {
  const { state: governance, renderFor, log } = options;
  const { marks } = options.store;
  return async (to: BlockRecipient): Promise<DueText | 'later' | undefined> => {
    if (to.userId === anonymousUser) {
      if (await governance.refresh())
        warnAtMostEvery('anonymous', () => log.warn('no policies for anonymous callers', { session: to.sessionId }));
      return undefined;
    }
    const last = await readLastRevision(marks, to);
    if (last === undefined && !(await governance.refresh())) return undefined;
    const { render, revision } = await renderFor(to);
    if (last === revision) return undefined;
    const kind = last === undefined ? 'block' : 'notice';
    const subject = `${to.transportId ?? sessionKey}:${kind === 'block' ? kind : revision}`;
    const claim = await claimDelivery(marks, to.sessionId, subject, now);
    if (claim === 'taken') return 'later';
    // The owner of an earlier claim may have delivered it meanwhile.
    if ((await readLastRevision(marks, to)) === last) return { kind, text: render(kind === 'notice'), revision, claim };
    await claim.release(false);
    return 'later';
  };
}

/** The last revision that this recipient got, from this process or another. */
async function readLastRevision(
  marks: SessionStore['marks'],
  { sessionId, transportId }: BlockRecipient,
): Promise<string | undefined> {
  const key = transportId ?? sessionKey;
  const first = await marks.get(sessionId, `block:${key}`);
  return first === undefined ? undefined : ((await marks.get(sessionId, `notice:${key}`)) ?? first);
}

async function recordDelivery(marks: SessionStore['marks'], to: BlockRecipient, due: DueText): Promise<void> {
  const { kind, revision, claim } = due;
  const key = `${kind}:${to.transportId ?? sessionKey}`;
  const put = await marks.put(to.sessionId, key, revision);
  if (kind === 'notice' && put.outcome === 'present' && put.value !== revision) {
    await marks.delete(to.sessionId, key);
    await marks.put(to.sessionId, key, revision);
  }
  await claim.release(true);
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
