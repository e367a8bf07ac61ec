import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { computeClientId } from '../../../src/context/for-models/delivery-marks.ts';
import { createSharedData, type ServedGateway } from '../../gateway/shared-data.ts';
import { somePolicies } from './governed-gateway.ts';

const data = createSharedData();
const description = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientCapabilities': {},
};
const namedClient = (name: string) => ({ 'io.modelcontextprotocol/clientInfo': { name, version: '1' } });

interface Reply {
  readonly result?: { readonly content?: readonly { readonly text: string }[]; readonly instructions?: string };
  readonly error?: { readonly message: string };
}

async function request(here: ServedGateway, token: string, meta: object, method: string): Promise<Reply> {
  const isCall = method === 'tools/call';
  const params = { ...(isCall ? { name: 'session_info', arguments: {} } : {}), _meta: { ...description, ...meta } };
  const response = await fetch(here.mcp('ambit'), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(isCall ? { 'mcp-name': 'session_info' } : {}),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return (await response.json()) as Reply;
}

/** Tells whether a call of this client is answered with the block. */
async function getsBlock(here: ServedGateway, token: string, meta: object): Promise<boolean> {
  const { result } = await request(here, token, meta, 'tools/call');
  expect(result?.content?.at(-1)?.text).toMatch(/"session"|_/);
  return result?.content?.[0]?.text.startsWith(headerLine) === true;
}

const discover = (here: ServedGateway, token: string, meta: object) => request(here, token, meta, 'server/discover');
const users = [{ name: 'ann' }, { name: 'bob' }];
const serve = () => data.serve({ governance: { ...somePolicies, users } });

describe('G1: a modern client of a session', () => {
  test('is told from others by its name, its credential and the conversation of its host', async () => {
    const here = await serve();
    const { id, token } = await here.open({ userId: 'ann' });
    const { key } = await here.gateway.people.keys.create({ userId: 'ann' });
    const another = await here.gateway.issueToken(id);
    const own = namedClient('one');
    const clients: [string, object][] = [
      [token, own],
      [token, namedClient('two')],
      [token, {}],
      [another, own],
      [key, { ...own, 'ambit/use-session': id }],
      [token, { ...own, 'openai/session': 'a' }],
      [token, { ...own, 'openai/session': 'b' }],
      [token, { ...own, sessionID: 'a' }],
      [key, { ...own, 'ambit/use-session': id, 'openai/session': 'a' }],
    ];
    for (const expected of [true, false])
      for (const [credential, meta] of clients) expect(await getsBlock(here, credential, meta)).toBe(expected);
    // In one conversation of a host, the program that calls does not matter.
    expect(await getsBlock(here, token, { ...namedClient('three'), 'openai/session': 'a' })).toBe(false);
  });

  test('gets the block again after its own discover, and after that of nobody else', async () => {
    const here = await serve();
    const [{ token, id }, foreign] = [await here.open({ userId: 'ann' }), await here.open({ userId: 'ann' })];
    const { key: own } = await here.gateway.people.keys.create({ userId: 'ann' });
    const { key: bobs } = await here.gateway.people.keys.create({ userId: 'bob' });
    const me = namedClient('me');
    expect(await getsBlock(here, token, me)).toBe(true);
    const attacks: [string, object][] = [
      [`${token.slice(0, -1)}${token.endsWith('x') ? 'y' : 'x'}`, me],
      ['', me],
      [foreign.token, me],
      [own, { ...me, 'ambit/use-session': id }],
      [bobs, { ...me, 'ambit/use-session': id }],
      [token, namedClient('you')],
      [token, { ...me, 'openai/session': 'a' }],
    ];
    for (const [credential, meta] of attacks) {
      await discover(here, credential, meta);
      expect(await getsBlock(here, token, me)).toBe(false);
    }
    expect((await discover(here, token, me)).result?.instructions).toContain('SESSION CONTEXT');
    expect([await getsBlock(here, token, me), await getsBlock(here, token, me)]).toEqual([true, false]);
  });

  test('with a key gets it again in the session that its discover names, also if it has other sessions', async () => {
    const here = await serve();
    const { id } = await here.open({ userId: 'ann', trustLevel: 'sandboxed' });
    const { key } = await here.gateway.people.keys.create({ userId: 'ann' });
    for (const chosen of [{}, { 'openai/session': 'a' }, { 'ambit/use-session': id }]) {
      const me = { ...namedClient('me'), ...chosen };
      for (let round = 0; round < 2; round++) {
        expect((await discover(here, key, me)).result?.instructions).toContain('SESSION CONTEXT');
        expect([await getsBlock(here, key, me), await getsBlock(here, key, me)]).toEqual([true, false]);
      }
    }
  });

  test('that connects again through another gateway gets it again from all, and none repeats it after a restart', async () => {
    const [here, there] = [await serve(), await serve()];
    const { token } = await here.open({ userId: 'ann' });
    const me = namedClient('me');
    expect(await getsBlock(here, token, me)).toBe(true);
    expect(await getsBlock(there, token, me)).toBe(false);
    await discover(there, token, me);
    // The other gateway hears of it within a second.
    while (!(await getsBlock(here, token, me)));
    expect([await getsBlock(there, token, me), await getsBlock(here, token, me)]).toEqual([false, false]);
    await here.close();
    expect(await getsBlock(await serve(), token, me)).toBe(false);
  });
});

test('G1: of many new clients at once, each gets the block with its first result', async () => {
  const here = await serve();
  const { token } = await here.open({ userId: 'ann' });
  const clients = Array.from({ length: 48 }, (_, index) => namedClient(`client ${index}`));
  const first = await Promise.all(clients.map((client) => getsBlock(here, token, client)));
  expect(first.filter((hasBlock) => !hasBlock)).toEqual([]);
});

test('L9: the store has nothing of what a client says about itself', async () => {
  const here = await serve();
  const { token } = await here.open({ userId: 'ann' });
  for (const meta of [namedClient('a-client-with-a-name'), { 'openai/session': 'a-client-with-a-name' }]) {
    await discover(here, token, meta);
    expect(await getsBlock(here, token, meta)).toBe(true);
  }
  await here.close();
  const files = readdirSync(data.dataDir, { recursive: true, withFileTypes: true }).filter((file) => file.isFile());
  expect(files.length).toBeGreaterThan(1);
  for (const { parentPath, name } of files)
    expect(readFileSync(join(parentPath, name)).includes('a-client-with-a-name')).toBe(false);
});

test('S7: what a client says about itself is read up to a length, and its id has a fixed one', () => {
  const session = { id: 's', tokenDigests: ['digest'] };
  const principal = { kind: 'user', userId: 'ann' };
  const computeId = (clientInfo: string, of = session) =>
    computeClientId(of, { credential: 'c', principal, hint: undefined, clientInfo });
  const ids = [computeId('x'.repeat(1024)), computeId('x'.repeat(1_000_000)), computeId('x'.repeat(1023))];
  expect(ids.map((id) => id.length)).toEqual([22, 22, 22]);
  expect(ids[0]).toBe(ids[1]);
  expect(ids[0]).not.toBe(ids[2]);
  expect(computeId('x', { ...session, tokenDigests: ['other'] })).not.toBe(computeId('x'));
});
