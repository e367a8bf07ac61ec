import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectHandshake, readAnswer } from '../../../journeys/raw-mcp-client.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../../../journeys/start-embedded-ambit.ts';

let [upstream, served]: [Server?, EmbeddedAmbit?] = [];
const sessionLost = { code: -32001, message: 'Session not found' };

/** A server that gives out sessions and forgets each at once; it has one prompt, asked for without a session too. */
beforeAll(async () => {
  upstream = createServer(async (request, response) => {
    if (request.method !== 'POST') return void response.writeHead(405).end();
    const { id, method } = JSON.parse(await text(request)) as { id?: number; method: string };
    if (id === undefined) return void response.writeHead(202).end();
    const result = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, prompts: {} },
      serverInfo: { name: 'forgetful', version: '1' },
    };
    const opens = method === 'initialize';
    const session = request.url === '/mcp' ? { 'mcp-session-id': 'forgotten' } : {};
    response.writeHead(opens ? 200 : 404, { 'content-type': 'application/json', ...(opens ? session : {}) });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, ...(opens ? { result } : { error: sessionLost }) }));
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => upstream?.once('listening', resolve));
  const origin = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
  const servers = { lost: { url: `${origin}/mcp` }, plain: { url: `${origin}/plain` } };
  served = await startEmbeddedAmbit({ servers });
});
afterAll(async () => {
  await served?.stop();
  upstream?.closeAllConnections();
  upstream?.close();
});

test.each(['lost', 'plain'])('a 404 of the server "%s" is no loss of the session of the client', async (server) => {
  if (served === undefined) throw new Error('not served');
  const { token } = await served.open();
  for (const [url, name] of [
    [served.mcp(server), 'x'],
    [`${served.url}/mcp`, `${server}__x`],
  ] as const) {
    const client = await connectHandshake(url, token);
    const called = await client.call(name, '{}');
    const said = JSON.stringify(await readAnswer(called));
    const got = await client.post(
      `{"jsonrpc":"2.0","id":7,"method":"prompts/get","params":{"name":${JSON.stringify(name)}}}`,
    );
    expect([called.status, got.status]).not.toContain(404);
    if (server === 'lost') expect(said).toContain('UPSTREAM_FAILED');
    // The words of a server that knows no sessions are its own answer.
    else expect(said).toContain(sessionLost.message);
  }
});
