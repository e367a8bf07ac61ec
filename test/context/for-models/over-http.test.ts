import { request } from 'node:http';
import { connect as connectTo } from 'node:net';
import { join } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import { createSharedData } from '../../gateway/shared-data.ts';
import { connectRawClient, eras } from '../../journeys/abandoned/raw-client.ts';
import { somePolicies } from './governed-gateway.ts';
import { governedServers } from './governed-server.ts';

const script = join(import.meta.dirname, '../../fixtures/governed/server.js');
const onStdio = { command: process.execPath, args: [script] };
const serverOf = governedServers();
const overHttp = async () => ({ it: { url: await serverOf({ modern: false }) } });
const data = createSharedData();

const blocksIn = (texts: readonly { readonly text?: string }[] | undefined) =>
  (texts ?? []).filter(({ text }) => text?.startsWith(headerLine)).length;

interface Caller {
  call(tool?: string): Promise<{ readonly text?: string }[]>;
  readonly instructions: string | undefined;
  close(): Promise<void>;
}

const clients = {
  'the 1.x SDK, handshake era': async (url: string, token: string | undefined): Promise<Caller> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const client = new ClientV1({ name: 'one', version: '1' });
    await client.connect(new TransportV1(new URL(url), { requestInit: { headers } }) as Transport);
    return {
      call: async (tool = 'say') =>
        (await client.callTool({ name: tool, arguments: { session: 'current' } })).content as { text?: string }[],
      instructions: client.getInstructions(),
      close: () => client.close(),
    };
  },
  'the 2.x SDK, modern era': async (url: string, token: string | undefined): Promise<Caller> => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const client = new Client({ name: 'two', version: '1' }, { versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }));
    return {
      call: async (tool = 'say') =>
        (await client.callTool({ name: tool, arguments: { session: 'current' } })).content as { text?: string }[],
      instructions: client.getInstructions(),
      close: () => client.close(),
    };
  },
};

describe.each(Object.entries(clients))('with %s', (_, connect) => {
  test('G1: the first call has the block, the second does not, other sessions and reconnects do', async () => {
    const here = await data.serve({ servers: { it: onStdio }, governance: somePolicies });
    const [one, other] = [await here.open({ userId: 'ann' }), await here.open({ userId: 'ann' })];
    const client = await connect(here.mcp('it'), one.token);
    expect(client.instructions).toContain('SESSION CONTEXT (auto-injected)');
    expect(await client.call()).toMatchObject([{ text: expect.stringContaining(headerLine) }, { text: 'said' }]);
    expect(await client.call()).toMatchObject([{ text: 'said' }]);
    const second = await connect(here.mcp('it'), other.token);
    expect(blocksIn(await second.call())).toBe(1);
    const again = await connect(here.mcp('it'), one.token);
    expect([blocksIn(await again.call()), blocksIn(await again.call())]).toEqual([1, 0]);
    for (const each of [client, second, again]) await each.close();
  });

  test('G1: with a key it is what the user of the key is given, teams and all', async () => {
    const governance = { ...somePolicies, teams: ['core'], users: [{ name: 'ann', teams: ['core'] }] };
    const here = await data.serve({ servers: await overHttp(), governance });
    await here.gateway.policies.set({ scope: 'team:core', name: 'teams-own', mode: 'append', text: 'Ask Bo.' });
    await here.gateway.policies.set({ scope: 'team:other', name: 'not-hers', mode: 'append', text: 'Ask Cy.' });
    const { key } = await here.gateway.people.keys.create({ userId: 'ann' });
    const client = await connect(here.mcp('it'), key);
    expect(client.instructions).toContain('SESSION CONTEXT (auto-injected)');
    const [block] = await client.call();
    expect(block?.text).toContain('  - [append] teams-own: Ask Bo. (inherited)');
    expect(block?.text).not.toContain('not-hers');
    expect(blocksIn(await client.call())).toBe(0);
    await client.close();
  });

  test('G3: without a key, and with a bad one that is let pass, the tool works and there is no block', async () => {
    const auth = { anonymous: 'loopback', onInvalidKey: 'anonymous' } as const;
    const here = await data.serve({ auth, governance: somePolicies });
    for (const token of [undefined, 'ambs_bad_bad']) {
      const client = await connect(here.mcp('ambit'), token);
      expect(client.instructions).toContain('SESSION CONTEXT (auto-injected)');
      const content = await client.call('session_info');
      expect(content).toMatchObject([{ text: expect.stringContaining('"userId":"anonymous"') }]);
      await client.close();
    }
  });
});

test('an answer that waits behind another on its connection counts as given when it is', async () => {
  const here = await data.serve({ servers: await overHttp(), governance: somePolicies });
  const { token } = await here.open({ userId: 'ann' });
  const url = new URL(here.mcp('it'));
  const asked = (id: number, name: string, close = false) => {
    const _meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const body = JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params: { name, arguments: {}, _meta } });
    const head = [
      `POST ${url.pathname} HTTP/1.1`,
      `host: ${url.host}`,
      `authorization: Bearer ${token}`,
      'content-type: application/json',
      'accept: application/json, text/event-stream',
      'mcp-protocol-version: 2026-07-28',
      'mcp-method: tools/call',
      `mcp-name: ${name}`,
      `content-length: ${body.length}`,
      ...(close ? ['connection: close'] : []),
    ];
    return `${head.join('\r\n')}\r\n\r\n${body}`;
  };
  const said: string[] = [];
  for (const requests of [asked(1, 'wait') + asked(2, 'say', true), asked(3, 'say', true)]) {
    const socket = connectTo(Number(url.port), url.hostname).setEncoding('utf8');
    socket.write(requests);
    let text = '';
    for await (const piece of socket) text += piece;
    said.push(text);
  }
  const [first = '', then = ''] = said;
  expect(first.split('HTTP/1.1 200').map((each) => each.includes(headerLine))).toEqual([false, false, true]);
  expect(then).toContain('"id":3');
  expect(then).not.toContain(headerLine);
});

describe.each(eras)('in the %s era', (era) => {
  test('a client that leaves in mid-answer gets the block with the next', async () => {
    const here = await data.serve({ servers: await overHttp(), governance: somePolicies });
    const { token, id } = await here.open({ userId: 'ann' });
    const door = { url: here.mcp('it'), token };
    const visitor = await connectRawClient(era, door);
    const body = {
      jsonrpc: '2.0',
      id: 'a',
      method: 'tools/call',
      params: {
        name: 'say',
        arguments: { long: 12_000_000 },
        ...(era === 'modern'
          ? {
              _meta: {
                'io.modelcontextprotocol/protocolVersion': '2026-07-28',
                'io.modelcontextprotocol/clientCapabilities': {},
              },
            }
          : {}),
      },
    };
    const head = await firstPiece(door, JSON.stringify(body), {
      'mcp-protocol-version': era === 'modern' ? '2026-07-28' : '2025-11-25',
      ...(era === 'modern' ? { 'mcp-method': 'tools/call', 'mcp-name': 'say' } : {}),
      ...(visitor.transportId === undefined ? {} : { 'mcp-session-id': visitor.transportId }),
    });
    expect(head).toContain(headerLine);
    const blocks = async () => blocksIn((await visitor.call('say').answered).message?.result?.content);
    // Nearly always the very next answer has it; the other side has to hear first that nobody is there.
    while ((await blocks()) === 0);
    expect([await blocks(), await blocks()]).toEqual([0, 0]);
    await here.close();
    const told = data.journal().filter(({ event }) => event === 'context-given');
    expect(told).toMatchObject([{ sessionId: id, userId: 'ann' }]);
  });

  test('G8: after a restart it is not delivered again', async () => {
    const before = await data.serve({ servers: await overHttp(), governance: somePolicies });
    const { token } = await before.open({ userId: 'ann' });
    const visitor = await connectRawClient(era, { url: before.mcp('it'), token });
    expect(blocksIn((await visitor.call('say').answered).message?.result?.content)).toBe(1);
    await before.close();
    const after = await data.serve({ servers: await overHttp(), governance: somePolicies });
    const same = await connectRawClient(era, { url: after.mcp('it'), token }, {}, visitor.transportId);
    expect((await same.call('say').answered).message?.result?.content).toMatchObject([{ text: 'said' }]);
  });
});

test('G7: what is written about a client goes with it, and all the rest with the session', async () => {
  const store = openMemoryStore();
  const here = await data.serve({ governance: somePolicies }, { store });
  const { token, id } = await here.open({ userId: 'ann' });
  const door = { url: here.mcp('ambit'), token };
  const marked = (what: string) => store.marks.get(id, `block:${what}`);
  /** It is written a moment after the answer has left. */
  const written = async (what: string) => {
    while ((await marked(what)) === undefined) await new Promise((resolve) => setImmediate(resolve));
  };
  const [first, second] = [await connectRawClient('handshake', door), await connectRawClient('handshake', door)];
  for (const visitor of [first, second, await connectRawClient('modern', door)]) {
    const { message } = await visitor.call('session_info', { session: 'current' }).answered;
    expect(blocksIn(message?.result?.content)).toBe(1);
    await written(visitor.transportId ?? 'client-0');
  }
  await first.leave();
  expect(await marked(first.transportId as string)).toBeUndefined();
  expect(await marked(second.transportId as string)).toBeDefined();
  await here.gateway.sessions.end(id);
  for (const what of [second.transportId as string, 'client-0']) expect(await marked(what)).toBeUndefined();
});

/** Reads the beginning of an answer, and is gone. Resolves when the other side can know. */
function firstPiece(
  { url, token }: { readonly url: string; readonly token: string },
  body: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  return new Promise((resolve, reject) => {
    const asking = request(url, {
      method: 'POST',
      headers: {
        ...headers,
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
    });
    asking.on('error', reject);
    asking.on('response', (response) => {
      response.once('data', (chunk: Buffer) => {
        response.once('close', () => resolve(chunk.toString()));
        response.on('error', () => {});
        asking.destroy();
      });
    });
    asking.end(body);
  });
}
