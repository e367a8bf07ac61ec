import { beforeAll, describe, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { handshake, initializeRequest, modernHeaders, modernRequest, openClient, post } from '../../json-mcp-client.ts';
import type { WatchedAmbit } from '../start-watched-ambit.ts';
import { sendAll } from './proper-answer.ts';
import { variantsOf } from './wrong-types.ts';

export function testWrongTypes(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;

  beforeAll(() => {
    ambit = given();
  });
  const call = { name: 'echo', arguments: { text: 'hello', deep: { list: [1] } } };
  const related = { 'io.modelcontextprotocol/related-task': { taskId: 'none' } };

  async function expectProperAnswers(message: unknown, headers: Record<string, string>): Promise<void> {
    const url = ambit.mcp('calm');
    const sent = await sendAll(ambit, variantsOf(message), (text) => post(url, ambit.token, text, headers));
    expect(sent).toBeGreaterThan(counts(8, 50));
    await ambit.expectHealthy();
  }

  describe('handshake era', () => {
    const messages: readonly Record<string, unknown>[] = [
      initializeRequest({ roots: { listChanged: true } }),
      { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { ...call, _meta: { progressToken: 3, ...related } } },
      { jsonrpc: '2.0', id: 'seven', method: 'ping' },
      { jsonrpc: '2.0', id: 7, method: 'resources/subscribe', params: { uri: 'file:///r' } },
      { jsonrpc: '2.0', id: 7, method: 'resources/unsubscribe', params: { uri: 'file:///r' } },
      { jsonrpc: '2.0', id: 7, method: 'logging/setLevel', params: { level: 'info' } },
      { jsonrpc: '2.0', id: 7, method: 'tasks/result', params: { taskId: 't' } },
      { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 3, progress: 1 } },
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7, reason: 'r' } },
      { jsonrpc: '2.0', method: 'notifications/initialized', params: { _meta: { a: 1 } } },
      { jsonrpc: '2.0', id: 7, result: { roots: [], _meta: { 'ambit/x': 1 } } },
      { jsonrpc: '2.0', id: 7, error: { code: 1, message: 'm' } },
    ];

    test.each(messages.map((message) => [String(message['method'] ?? 'a response'), message] as const))(
      '%s with every value of every wrong type',
      async (method, message) => {
        const client = await openClient(ambit.mcp('calm'), ambit.token);
        await expectProperAnswers(
          message,
          method === 'initialize' ? { 'mcp-protocol-version': handshake } : client.headers,
        );
      },
    );
  });

  describe('modern era', () => {
    const ref = { type: 'ref/prompt', name: 'p' };

    test.each([
      modernRequest(7, 'tools/call', { ...call, _meta: { progressToken: 3, ...related } }),
      modernRequest('seven', 'tools/call', {
        ...call,
        requestState: 'none',
        inputResponses: { a: { action: 'accept' } },
      }),
      modernRequest(7, 'tools/list', { cursor: 'c' }),
      modernRequest(7, 'server/discover'),
      modernRequest(7, 'prompts/get', { name: 'p', arguments: { a: 'b' } }),
      modernRequest(7, 'resources/read', { uri: 'file:///r' }),
      modernRequest(7, 'tasks/get', { taskId: 't' }),
      modernRequest(7, 'completion/complete', { ref, argument: { name: 'a', value: 'b' } }),
      { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7, reason: 'r' } },
    ])('$method with every value of every wrong type', async (message) => {
      const { name, uri, taskId } = message.params as { name?: string; uri?: string; taskId?: string };
      await expectProperAnswers(message, modernHeaders(message.method, name ?? uri ?? taskId));
    });
  });
}
