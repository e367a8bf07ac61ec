import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { counts, proof } from '../../proof.ts';
import { type ConnectedServer, connectHttp, connectStdio, type Era, type Sdk, signer } from './connect-server.ts';
import { type ClaimOptions, createClaims, createMeta, createSigner, type TestClaims } from './signer.ts';

const stranger = await createSigner();

const cells: [string, 'stdio' | 'http', Sdk, Era][] = [
  ['SDK v1, stdio, handshake', 'stdio', 'v1', 'handshake'],
  // Each two of the three are together in one of the others.
  ...(proof ? ([['SDK v2, stdio, handshake', 'stdio', 'v2', 'handshake']] as [string, 'stdio', Sdk, Era][]) : []),
  ['SDK v2, stdio, modern', 'stdio', 'v2', 'modern'],
  ['SDK v1, HTTP, handshake', 'http', 'v1', 'handshake'],
  ['SDK v2, HTTP, handshake', 'http', 'v2', 'handshake'],
  ['SDK v2, HTTP, modern', 'http', 'v2', 'modern'],
];

describe.each(cells)('%s', (_, carrier, sdk, era) => {
  let cell: ConnectedServer;
  beforeAll(async () => {
    cell = carrier === 'stdio' ? await connectStdio(sdk, era) : await connectHttp(sdk, era);
  });
  afterAll(() => cell?.close());

  const claims = (asked: ClaimOptions) => createClaims({ aud: cell.aud, ...asked });
  const signed = async (asked: TestClaims, plain: object = {}) => createMeta(await signer.sign(asked), asked, plain);

  test('P11, P12: a tool knows its session, in nested code too, whatever its schema makes of the arguments', async () => {
    const asked = claims({ name: 'whoami', canonical: '{"tag":"x"}' });
    const { text } = await cell.call('whoami', { tag: 'x' }, await signed(asked));
    expect(JSON.parse(text)).toMatchObject({
      status: 'verified',
      sessionId: asked.tctx.sessionId,
      correlationId: asked.tctx.correlationId,
      userId: 'ada',
      agentId: 'coder',
      workspaceId: 'garden',
      trustLevel: 'direct',
      permissions: ['notes:write'],
      same: true,
      pause: 0,
    });
    expect(JSON.parse(text).workspacePath).toBe(carrier === 'stdio' ? '/srv/garden' : undefined);
    const plain = await cell.call('plain', undefined, await signed(claims({ name: 'plain' })));
    expect(JSON.parse(plain.text)).toMatchObject({ status: 'verified' });
  });

  test('P9: without a context the tool works, and says how far it is trusted', async () => {
    const { text } = await cell.call('whoami', {});
    expect(JSON.parse(text)).toMatchObject(
      carrier === 'stdio'
        ? { status: 'inherited', sessionId: 'from-the-environment', trustLevel: 'sandboxed', workspaceId: 'shed' }
        : { status: 'absent', code: 'NO_CONTEXT' },
    );
  });

  test('P11: trust and permissions are enforced, and the answer says what to do', async () => {
    const asked = { name: 'delete_note', canonical: '{"id":7}' };
    const call = async (more: ClaimOptions) =>
      cell.call('delete_note', { id: 7 }, await signed(claims({ ...asked, ...more })));
    expect(await call({})).toMatchObject({ isError: false, text: '{"deleted":7}' });
    const distrusted = await call({ trust: 'sandboxed' });
    expect(distrusted).toMatchObject({ isError: true, code: 'TRUST_REQUIRED' });
    expect(distrusted.text).toMatch(/^TRUST_REQUIRED: this tool is for direct sessions only, and it is sandboxed/);
    expect(await call({ permissions: [] })).toMatchObject({ isError: true, code: 'PERMISSION_DENIED' });
    expect(await cell.call('delete_note', { id: 7 })).toMatchObject({ isError: true, code: 'TRUST_REQUIRED' });
  });

  test('O3, O4: the handler always gets a workspace', async () => {
    const where = async (canonical: string) => {
      const meta = await signed(claims({ name: 'where', canonical }));
      return cell.call('where', JSON.parse(canonical) as Record<string, unknown>, meta);
    };
    expect(JSON.parse((await where('{}')).text)).toMatchObject({ workspace: 'garden', from: 'session' });
    expect(JSON.parse((await where('{"workspace":"attic"}')).text)).toMatchObject({ workspace: 'attic' });
    expect(await where('{"workspace":"prod"}')).toMatchObject({ isError: true, code: 'WORKSPACE_NOT_FOUND' });
  });

  test('P12: what was forged, changed, moved or used before does not reach the tool', async () => {
    const asked = () => claims({ name: 'delete_note', canonical: '{"id":7}' });
    const now = Date.now();
    const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const good = await signer.sign(asked());
    const [header, payload, signature] = good.split('.') as [string, string, string];
    const tokens: [string, RegExp][] = [
      [`${header}.${encoded({ ...asked(), sub: 'root' })}.${signature}`, /was changed, or signed by someone else/],
      [`${encoded({ alg: 'none', typ: 'txntoken+jwt', kid: signer.kid })}.${payload}.`, /only Ed25519 is accepted/],
      [await stranger.sign(asked()), /not among the known keys/],
      [await stranger.sign(asked(), { kid: signer.kid }), /signed by someone else/],
      [await signer.sign(claims({ name: 'whoami', canonical: '{"id":7}' })), /is for "whoami"/],
      [await signer.sign(claims({ name: 'delete_note', canonical: '{"id":8}' })), /other arguments/],
      [
        await signer.sign(createClaims({ aud: 'https://other.example/mcp', canonical: '{"id":7}' })),
        /not for this server/,
      ],
      [await signer.sign(claims({ canonical: '{"id":7}', now: now - 120_000 })), /has expired/],
      [await signer.sign(asked(), { typ: 'JWT' }), /not "txntoken\+jwt"/],
      ['', /not a compact JWS/],
    ];
    for (const [token, reason] of tokens) {
      const answer = await cell.call('delete_note', { id: 7 }, createMeta(token, asked()));
      expect(answer, String(reason)).toMatchObject({ isError: true, code: 'CONTEXT_REFUSED' });
      expect(answer.text).toMatch(reason);
    }
    expect(await cell.call('delete_note', { id: 7 }, createMeta(good, asked()))).toMatchObject({ isError: false });
    const twice = await cell.call('delete_note', { id: 7 }, createMeta(good, asked()));
    expect(twice.text).toMatch(/^CONTEXT_REFUSED: The token has already been used/);
  });

  test('plain values beside the token do not overrule it', async () => {
    const asked = claims({ name: 'delete_note', canonical: '{"id":7}', trust: 'sandboxed' });
    const answer = await cell.call('delete_note', { id: 7 }, await signed(asked, { trustLevel: 'direct' }));
    expect(answer).toMatchObject({ isError: true, code: 'TRUST_REQUIRED' });
  });

  test('resources are bound to their address, and lists are answered in any case', async () => {
    const uri = 'note://1';
    const meta = await signed(claims({ method: 'resources/read', name: uri }));
    expect(JSON.parse(await cell.readResource(uri, meta))).toMatchObject({ status: 'verified', userId: 'ada' });
    await expect(cell.readResource(uri, meta)).rejects.toThrow(/CONTEXT_REFUSED: The token has already been used/);
    expect(await cell.tools(createMeta('forged', claims({})))).toContain('whoami');
  });

  if (carrier === 'http') {
    test('P12: the header alone is enough', async () => {
      const token = await signer.sign(claims({ name: 'whoami' }));
      const { text } = await cell.call('whoami', {}, undefined, token);
      expect(JSON.parse(text)).toMatchObject({ status: 'verified', userId: 'ada', same: true });
      const again = await cell.call('whoami', {}, undefined, token);
      expect(again).toMatchObject({ isError: true, code: 'CONTEXT_REFUSED' });
    });
  }

  test('L3: calls at the same time never mix', async () => {
    const calls = Array.from({ length: counts(20, 40) }, async (_, i) => {
      const args = { pause: (i * 7) % 11, tag: `t${i}` };
      const canonical = `{"pause":${args.pause},"tag":"t${i}"}`;
      const trust = i % 2 === 0 ? 'direct' : 'sandboxed';
      const asked = claims({ name: 'whoami', canonical, session: `session-${i}`, workspace: `w${i}`, trust });
      const { text } = await cell.call('whoami', args, await signed(asked));
      return [JSON.parse(text), { tag: `t${i}`, sessionId: `session-${i}`, workspaceId: `w${i}`, trustLevel: trust }];
    });
    for (const [said, meant] of await Promise.all(calls)) expect(said).toMatchObject({ ...meant, same: true });
  });
});
