import assert from 'node:assert/strict';
import type { Admission } from '../../../stores/admission.ts';
import type { SessionStore } from '../../../stores/store.ts';

export const admitted = async (store: SessionStore, request: Admission): Promise<boolean> =>
  (await store.admit(request)).outcome === 'admitted';

/** A place that was taken, for half a minute unless told. */
export async function place(store: SessionStore, request: Admission): Promise<string> {
  const answer = await store.admit({ holdMs: 30_000, ...request });
  assert.ok(answer.outcome === 'admitted' && answer.lease !== null, JSON.stringify(answer));
  return answer.lease;
}
