import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { isAmbitError } from '../../../errors.ts';
import type { Admission, Use } from '../../../stores/admission.ts';
import type { DocumentLimits } from '../../../stores/documents.ts';
import type { JsonValue, NewSession, SessionRecord } from '../../../stores/record.ts';
import type { SessionStore, StateLimits } from '../../../stores/store.ts';

export const isAdmitted = async (store: SessionStore, request: Admission): Promise<boolean> =>
  (await store.admit(request)).outcome === 'admitted';

/** The test runner of the suite: Vitest, Jest or node:test. */
export interface SuiteRunner {
  describe(name: string, define: () => void): unknown;
  test(name: string, run: () => Promise<void>): unknown;
}

/** A new store for one test. The test moves its clock and sweeps it. */
export interface StoreHarness {
  readonly store: SessionStore;
  /** Moves the clock of this store and of all others on the same data. */
  advance(ms: number): void;
  /** Opens a second store on the same data, as another process would. Left out if sessions are not shared. */
  readonly another?: () => Promise<SessionStore>;
  /** Removes what `open` created, after the stores were closed. */
  readonly dispose?: () => Promise<void>;
}

export interface OpenOptions {
  readonly stateLimits: StateLimits;
  readonly resultLimits: StateLimits;
  readonly documentLimits: DocumentLimits;
}

/** Small limits, because the suite reaches them. */
export const suiteLimits: OpenOptions = {
  stateLimits: { valueBytes: 200, keys: 5, totalBytes: 500 },
  resultLimits: { valueBytes: 200, keys: 5, totalBytes: 500 },
  documentLimits: { textBytes: 200, documents: 5 },
};

export type OpenStore = (options: OpenOptions) => Promise<StoreHarness>;
export type StoreTest = StoreHarness & { open(changes?: Partial<NewSession>): Promise<SessionRecord> };
export type DefineTest = (title: string, run: (storeTest: StoreTest) => Promise<void>) => void;

export function createNewSession(changes: Partial<NewSession> = {}): NewSession {
  const metadata: { [key: string]: JsonValue } = { ticket: 'T-1', nested: { list: [1, 'zwei', null, true] } };
  return {
    id: randomBytes(16).toString('hex'),
    name: null,
    userId: 'ada',
    agentId: 'coder',
    workspaceId: 'garden',
    parentId: null,
    keyId: 'k1',
    task: 'Weed the garden.',
    quotas: { totalCalls: 1000 },
    trustLevel: 'sandboxed',
    permissions: ['notes:read'],
    servers: null,
    metadata,
    origin: { by: 'key', given: ['trustLevel'], restricted: [] },
    tokenDigests: ['d1'],
    ttlSeconds: 60,
    lifetimeSeconds: 600,
    ...changes,
  };
}

/** Takes a lease, for half a minute by default. */
export async function acquireLease(store: SessionStore, request: Admission): Promise<string> {
  const { lease } = await expectOutcome(store.admit({ holdMs: 30_000, ...request }), 'admitted');
  assert.ok(lease !== null);
  return lease;
}

/** Reads the use of a session without its leases. */
export async function readUse(store: SessionStore, id: string): Promise<Use | undefined> {
  const use = await store.usage(id);
  return use && { calls: use.calls, bytes: use.bytes, underWay: use.underWay };
}

/** Asserts the outcome of an answer, and returns the answer with what only this outcome has. */
export async function expectOutcome<A extends { readonly outcome: string }, O extends A['outcome']>(
  asked: Promise<A>,
  outcome: O,
): Promise<Extract<A, { readonly outcome: O }>> {
  const answer = await asked;
  assert.equal(answer.outcome, outcome, JSON.stringify(answer));
  return answer as Extract<A, { readonly outcome: O }>;
}

export function isInvalidRequest(error: unknown): boolean {
  return isAmbitError(error) && error.code === 'REQUEST_INVALID';
}

/** Opens two stores on the same data if sessions are shared; else returns the one store twice. */
export async function openPair({ store, another }: StoreHarness): Promise<[SessionStore, SessionStore]> {
  return [store, another === undefined ? store : await another()];
}

/** Makes many calls at once, alternately in the two stores. */
export function callConcurrently<T>(
  stores: readonly [SessionStore, SessionStore],
  call: (store: SessionStore, index: number) => Promise<T>,
  count = 20,
): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => call(stores[index % 2 === 0 ? 0 : 1], index)));
}
