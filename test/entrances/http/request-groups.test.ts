import { expect, onTestFinished, test } from 'vitest';
import { createRequestGroups, type RequestGroups } from '../../../src/entrances/http/request-groups.ts';
import { openRawSocket } from '../../journeys/hostile/raw-socket.ts';
import { connectHandshake } from '../../journeys/raw-mcp-client.ts';
import { startEmbeddedAmbit } from '../../journeys/start-embedded-ambit.ts';

function enterMany(groups: RequestGroups, count: number): void {
  for (let i = 0; i < count; i++) groups.enter();
}

test('a request that is alone does not wait', () => {
  const groups = createRequestGroups();
  groups.enter();
  expect(groups.join()).toBeUndefined();
  groups.enter();
  expect(groups.join()).toBeInstanceOf(Promise);
  groups.leave();
  expect(groups.join()).toBeUndefined();
});

test('requests of one turn take each step together, in the order of their arrival', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 3);
  const steps: string[] = [];
  const run = async (name: string) => {
    await groups.join();
    steps.push(`${name} first`);
    await undefined;
    steps.push(`${name} second`);
  };
  await Promise.all(['a', 'b', 'c'].map(run));
  expect(steps).toEqual(['a first', 'b first', 'c first', 'a second', 'b second', 'c second']);
});

test('a large crowd goes on in groups, and nobody is forgotten', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 100);
  const order: number[] = [];
  /** The requests that were done when the first request of each group had taken two steps. */
  const doneBefore: number[] = [];
  const run = async (index: number) => {
    await groups.join();
    await undefined;
    if (index % 32 === 0) doneBefore.push(order.length);
    order.push(index);
  };
  await Promise.all(Array.from({ length: 100 }, (_, index) => run(index)));
  expect(order).toEqual(Array.from({ length: 100 }, (_, index) => index));
  expect(doneBefore).toEqual([0, 32, 64, 96]);
});

test('a request that joins while a group goes on waits for the next one', async () => {
  const groups = createRequestGroups();
  enterMany(groups, 2);
  const steps: string[] = [];
  const first = (async () => {
    await groups.join();
    steps.push('request');
    await groups.join();
    steps.push('reply');
  })();
  const second = (async () => {
    await groups.join();
    steps.push('other request');
  })();
  await Promise.all([first, second]);
  expect(steps).toEqual(['request', 'other request', 'reply']);
});

/** Answers everything except calls of tools. */
const silent = `require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method } = JSON.parse(line);
  const result = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 's', version: '1' }, tools: [] };
  if (id !== undefined && method !== 'tools/call') console.log(JSON.stringify({ jsonrpc: '2.0', id, result }));
})`;

test('a cancellation that arrives together with its call does not overtake it', async () => {
  const ambit = await startEmbeddedAmbit({
    servers: { silent: { command: process.execPath, args: ['-e', silent], era: 'handshake' } },
  });
  onTestFinished(() => ambit.stop());
  for (const [path, tool] of [
    ['/mcp/silent', 'wait'],
    ['/mcp', 'silent__wait'],
  ]) {
    const { token } = await ambit.open();
    const { transportId, post: ask } = await connectHandshake(ambit.url + path, token);
    // It connects to the server, which a client at the address of all servers does only when it needs it.
    await (await ask('{"jsonrpc":"2.0","id":0,"method":"tools/list"}')).rest();
    const head = `POST ${path} HTTP/1.1\r\nHost: ${new URL(ambit.url).host}\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Session-Id: ${transportId}\r\n`;
    const post = (body: object) => {
      const text = JSON.stringify({ jsonrpc: '2.0', ...body });
      return `${head}Content-Length: ${text.length}\r\n\r\n${text}`;
    };
    const socket = await openRawSocket(ambit.url);
    // The server never answers, so only the cancellation can end the call.
    for (const id of [1, 2, 3]) {
      const call = post({ id, method: 'tools/call', params: { name: tool, arguments: {} } });
      await socket.say(call + post({ method: 'notifications/cancelled', params: { requestId: id } }));
      await socket.hears(new RegExp(`(?:HTTP/1.1 202[^]*){${2 * id}}`));
    }
    socket.reset();
  }
});
