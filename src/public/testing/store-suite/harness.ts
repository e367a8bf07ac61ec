import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import type { Admission } from '../../../stores/admission.ts';
import type { DocumentLimits } from '../../../stores/documents.ts';
import type { JsonValue, NewSession, SessionRecord } from '../../../stores/record.ts';
import type { SessionStore, StateLimits } from '../../../stores/store.ts';

export const admitted = async (store: SessionStore, request: Admission): Promise<boolean> =>
  (await store.admit(request)).outcome === 'admitted';

/** What the suite needs of a test runner; Vitest, Jest and node:test all have it. */
export interface SuiteRunner {
  describe(name: string, define: () => void): unknown;
  test(name: string, run: () => Promise<void>): unknown;
}

/** A fresh store for one test, whose time the test moves, and which leaves the sweeping to it. */
export interface StoreHarness {
  readonly store: SessionStore;
  /** Moves the time of this store, and of all others on the same data. */
  advance(ms: number): void;
  /** A second store on the same data, as another process would open it. Where sessions are not shared, none. */
  readonly another?: () => Promise<SessionStore>;
  /** Takes away what `open` made; the stores have been closed by then. */
  readonly dispose?: () => Promise<void>;
}

/** The suite fills these up, so the store is opened with small ones. */
export const suiteStateLimits: StateLimits = { valueBytes: 200, keys: 5, totalBytes: 500 };

export const suiteDocumentLimits: DocumentLimits = { textBytes: 200, documents: 5 };

export interface OpenOptions {
  readonly stateLimits: StateLimits;
  readonly documentLimits: DocumentLimits;
}

export type OpenStore = (options: OpenOptions) => Promise<StoreHarness>;
export type Scene = StoreHarness & { open(changes?: Partial<NewSession>): Promise<SessionRecord> };
export type Tell = (rule: string, proof: (scene: Scene) => Promise<void>) => void;

export function draft(changes: Partial<NewSession> = {}): NewSession {
  const metadata: { [key: string]: JsonValue } = { ticket: 'T-1', nested: { list: [1, 'zwei', null, true] } };
  return {
    id: randomBytes(16).toString('hex'),
    name: null,
    userId: 'ada',
    agentId: 'coder',
    workspaceId: 'garden',
    parentId: null,
    keyId: 'k1',
    trustLevel: 'sandboxed',
    permissions: ['notes:read'],
    servers: null,
    metadata,
    tokenDigests: ['d1'],
    ttlSeconds: 60,
    lifetimeSeconds: 600,
    ...changes,
  };
}

/** A place that was taken, for half a minute unless told. */
export async function place(store: SessionStore, request: Admission): Promise<string> {
  const answer = await store.admit({ holdMs: 30_000, ...request });
  assert.ok(answer.outcome === 'admitted' && answer.lease !== null, JSON.stringify(answer));
  return answer.lease;
}
