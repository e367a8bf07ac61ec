import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { computeArgumentsDigest, noArgumentsDigest } from '../../../src/context/for-tools/arguments-digest.ts';
import {
  type BoundRequest,
  type ContextWriters,
  createContextWriters,
} from '../../../src/context/for-tools/call-context.ts';
import { createContextKey } from '../../../src/context/for-tools/context-key.ts';
import { createPseudonyms } from '../../../src/context/for-tools/pseudonyms.ts';
import { openSigningKeys, type SigningKeys, writeInlineKeys } from '../../../src/context/for-tools/signing-keys.ts';
import { createReplayMemory, type ReadOptions, readContext } from '../../../src/public/sdk/index.ts';
import type { ActingSession } from '../../../src/rules/session-base.ts';
import { measureKeptMb } from '../../lib/collect-garbage.ts';
import { proof } from '../../proof.ts';

const folder = mkdtempSync(join(tmpdir(), 'ambit-writer-'));
const start = Date.UTC(2026, 0, 1);
let now = start;
let keys: SigningKeys;
let writers: ContextWriters;
/** What a process was given when it started, long before all that follows. */
let AMBIT_JWKS: string;

beforeAll(async () => {
  keys = await openSigningKeys(folder, () => now);
  AMBIT_JWKS = writeInlineKeys(keys);
  writers = createContextWriters({
    keys,
    pseudonyms: createPseudonyms(keys.pseudonymSecret),
    issuer: 'ambit:gateway:test',
    workload: 'ambit:one',
    pathOf: ({ workspaceId }) => (workspaceId === 'garden' ? '/srv/the "garden"' : undefined),
    now: () => now,
  });
});

afterAll(() => {
  keys.close();
  rmSync(folder, { recursive: true, force: true });
});

const ada: ActingSession = {
  id: 'session-of-ada',
  userId: 'ada',
  agentId: 'coder',
  workspaceId: 'garden',
  trustLevel: 'direct',
  permissions: ['notes:read'],
};
const audience = 'ambit:server:notes';
const call = { method: 'tools/call', name: 'read', argsSha256: noArgumentsDigest };

function written(session: ActingSession, request: BoundRequest = call, correlationId = 'c-1') {
  const { memberStart, memberEnd, token } = writers.for(audience, 'full').write(session, correlationId, request);
  const meta = JSON.parse(`{${memberStart}${memberEnd}}`) as {
    'ambit/context': Record<string, unknown> & { token: string };
  };
  return { meta, token };
}

function read(meta: object, known: ReadOptions = {}) {
  const { method = 'tools/call', name = 'read', ...options } = known;
  return readContext(
    { meta, method, name, arguments: known.arguments },
    { env: { AMBIT_JWKS }, audience, now: () => now, replays: createReplayMemory(), ...options },
  );
}

describe('what is written is what is read', () => {
  test('P12: whoever the session is, and whatever it calls', async () => {
    const text = fc.string({ unit: 'binary', minLength: 1, maxLength: 20 });
    const session = fc.record({
      id: text,
      userId: text,
      agentId: fc.option(text, { nil: undefined }),
      workspaceId: fc.option(fc.constantFrom('garden', 'kitchen'), { nil: undefined }),
      trustLevel: fc.constantFrom('direct' as const, 'sandboxed' as const),
      permissions: fc.array(text, { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(session, text, fc.jsonValue({ maxDepth: 2 }), async (acting, name, given) => {
        const argsSha256 = computeArgumentsDigest(Buffer.from(JSON.stringify(given)));
        const { meta, token } = written(acting, { method: 'tools/call', name, argsSha256 });
        expect(token).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+$/);
        expect(meta['ambit/context'].token).toBe(token);
        const context = await read(meta, { name, arguments: given });
        const { id: sessionId, ...facts } = acting;
        expect(context).toMatchObject({ status: 'verified', sessionId, ...facts, reason: undefined });
        expect(context.workspacePath).toBe(facts.workspaceId === 'garden' ? '/srv/the "garden"' : undefined);
      }),
    );
  });

  test('P12: requests are told apart by method and name, where there is no name too', async () => {
    const { meta } = written(ada, { method: 'tools/list', name: '', argsSha256: noArgumentsDigest });
    expect(await readContext({ meta, method: 'tools/list' }, { env: { AMBIT_JWKS }, now: () => now })).toMatchObject({
      status: 'verified',
    });
    expect(await read(meta)).toMatchObject({ status: 'absent', code: 'METHOD_MISMATCH' });
    expect(await read(written(ada).meta, { name: 'delete' })).toMatchObject({ code: 'NAME_MISMATCH' });
    expect(await read(written(ada).meta, { arguments: { id: 1 } })).toMatchObject({ code: 'ARGUMENTS_MISMATCH' });
  });

  test('P12: each token is another, and good for a minute', async () => {
    const { meta } = written(ada);
    expect(written(ada).token).not.toBe(meta['ambit/context'].token);
    const later = (seconds: number) => read(meta, { now: () => now + seconds * 1000 });
    expect(await later(0)).toMatchObject({ status: 'verified', issuedAt: start, expiresAt: start + 60_000 });
    expect(await later(64)).toMatchObject({ status: 'verified' });
    expect(await later(66)).toMatchObject({ code: 'TOKEN_EXPIRED' });
    expect(await later(-7)).toMatchObject({ code: 'TOKEN_NOT_YET_VALID' });
    const [said, signed] = [meta['ambit/context'], await later(0)];
    expect([Date.parse(said.issuedAt as string), Date.parse(said.expiresAt as string)]).toEqual([
      signed.issuedAt,
      signed.expiresAt,
    ]);
  });

  test('P12: calls in a row, which share the start of their token, are each bound to their own request', async () => {
    const writer = writers.for(audience, 'full');
    const tokens = new Set<string>();
    const check = async (name: string, id: number, correlationId: string) => {
      const given = { id };
      const argsSha256 = computeArgumentsDigest(Buffer.from(JSON.stringify(given)));
      const { memberStart, memberEnd, token } = writer.write(ada, correlationId, {
        method: 'tools/call',
        name,
        argsSha256,
      });
      tokens.add(token);
      const meta = JSON.parse(`{${memberStart}${memberEnd}}`) as { 'ambit/context': { issuedAt: string } };
      const context = await read(meta, { name, arguments: given });
      expect(context).toMatchObject({ status: 'verified', correlationId, sessionId: ada.id });
      expect(Date.parse(meta['ambit/context'].issuedAt)).toBe(Math.floor(now / 1000) * 1000);
      expect(await read(meta, { name, arguments: { id: id + 1 } })).toMatchObject({ code: 'ARGUMENTS_MISMATCH' });
      expect(await read(meta, { name: `${name}s`, arguments: given })).toMatchObject({ code: 'NAME_MISMATCH' });
    };
    for (const [index, name] of ['read', 'read', 'write', 'read', 'rea\u00fc\ud83e\udd9c', 'read'].entries()) {
      await check(name, index, `c-${index}`);
      if (index === 3) now += 1000;
    }
    expect(tokens.size).toBe(6);
  });

  test.runIf(proof)('P12: long names, which clients choose, are not kept', () => {
    const writer = writers.for(audience, 'full');
    const key = createContextKey();
    const sessions = Array.from({ length: 100 }, (_, index) => ({ ...ada, id: `s-${index}` }));
    const kept = measureKeptMb(() => {
      for (const [index, session] of sessions.entries()) {
        const name = `${index}${'x'.repeat(200_000)}`;
        writer.write(session, 'c', { ...call, name });
        writer.write(session, 'c', { ...call, name }, key);
      }
      return sessions;
    });
    expect(kept).toBeLessThan(20);
  });

  test('a session that was restricted is described as it is now, at once', async () => {
    const writer = writers.for(audience, 'full');
    const levels = [ada, { ...ada, trustLevel: 'sandboxed' as const, permissions: [] }].map((session) => {
      const { memberStart, memberEnd } = writer.write(session, 'c', call);
      return read(JSON.parse(`{${memberStart}${memberEnd}}`) as object);
    });
    expect((await Promise.all(levels)).map(({ trustLevel, permissions }) => [trustLevel, permissions])).toEqual([
      ['direct', ['notes:read']],
      ['sandboxed', []],
    ]);
  });

  test('P12: a process that was started before the keys changed reads the new one by itself', async () => {
    const before = written(ada).meta;
    now += 30 * 24 * 3600_000;
    await keys.renewIfDue();
    expect(await read(written(ada).meta)).toMatchObject({ status: 'verified' });
    now += 16 * 60_000;
    const { meta, token } = written(ada);
    const kid = (JSON.parse(Buffer.from(token.split('.')[0] ?? '', 'base64url').toString()) as { kid: string }).kid;
    expect(AMBIT_JWKS).not.toContain(kid);
    expect(await read(meta)).toMatchObject({ status: 'verified', sessionId: ada.id });
    // Another gateway's key is not learnt in the same way.
    const foreign = await openSigningKeys(join(folder, 'foreign'), () => now);
    const theirs = createContextWriters({
      keys: foreign,
      pseudonyms: createPseudonyms(foreign.pseudonymSecret),
      issuer: 'ambit:gateway:test',
      workload: 'ambit:two',
      pathOf: () => undefined,
      now: () => now,
    });
    const { memberStart, memberEnd } = theirs.for(audience, 'full').write(ada, 'c', call);
    const forged = JSON.parse(`{${memberStart}${memberEnd}}`) as object;
    expect(await read(forged)).toMatchObject({ code: 'KEY_UNKNOWN' });
    expect(await read(before)).toMatchObject({ code: 'TOKEN_EXPIRED' });
    foreign.close();
  });
});
