import { expect } from 'vitest';
import { type ReadOptions, readContext } from '../../../src/public/sdk/index.ts';
import { createMeta, createSigner, type TestClaims } from './signer.ts';

export const signer = await createSigner();

/** The environment of a process that Ambit started for a direct session: what must never be fallen back to. */
export const startEnvironment = {
  AMBIT_SESSION_ID: 'from-the-environment',
  AMBIT_TRUST_LEVEL: 'direct',
  AMBIT_USER_ID: 'ada',
  AMBIT_WORKSPACE_ID: 'kitchen',
  AMBIT_JWKS: JSON.stringify(signer.jwks),
};

export const call = { method: 'tools/call', name: 'delete_note', arguments: {} };

export function readMeta(meta: unknown, options: ReadOptions = {}, details: object = call) {
  return readContext({ meta, ...details }, { env: startEnvironment, ...options });
}

export async function readSigned(claims: TestClaims, header: Record<string, unknown> = {}, options: ReadOptions = {}) {
  return readMeta(createMeta(await signer.sign(claims, header), claims), options);
}

/** Refused, with the reason, and with nothing left that a tool could act on. */
export function expectRefused(context: Awaited<ReturnType<typeof readContext>>, code: string, reason: RegExp) {
  expect(context).toMatchObject({ status: 'absent', code, permissions: [] });
  expect(context.reason).toMatch(reason);
  const { sessionId, userId, agentId, workspaceId, workspacePath, trustLevel } = context;
  expect([sessionId, userId, agentId, workspaceId, workspacePath, trustLevel]).toEqual(Array(6).fill(undefined));
}
