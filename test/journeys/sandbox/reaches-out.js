// An MCP server of the modern era whose only tool connects to a place by the proxy it is told of, and says what it was told.
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';

async function reach(place) {
  if (process.env.HTTPS_PROXY === undefined) return 'no proxy';
  const { hostname, port } = new URL(process.env.HTTPS_PROXY);
  const socket = connect({ host: hostname, port });
  try {
    await once(socket, 'connect');
    const get = `GET / HTTP/1.1\r\nHost: ${place}\r\nConnection: close\r\n\r\n`;
    socket.write(`CONNECT ${place} HTTP/1.1\r\nHost: ${place}\r\n\r\n${get}`);
    return await text(socket);
  } catch ({ code }) {
    return code;
  }
}

const say = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, result })}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === 'server/discover') {
    say(id, {
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
      serverInfo: { name: 'reaches-out', version: '1' },
      ttlMs: 0,
      cacheScope: 'private',
    });
  } else if (method === 'tools/call') {
    const found = await reach(params.arguments.place);
    say(id, { resultType: 'complete', content: [{ type: 'text', text: found }] });
  }
}
