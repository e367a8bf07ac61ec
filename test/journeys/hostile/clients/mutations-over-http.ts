import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import {
  initializeRequest,
  type JsonClient,
  modernHeaders,
  modernRequest,
  openClient,
  post,
} from '../../json-mcp-client.ts';
import type { WatchedAmbit } from '../start-watched-ambit.ts';
import { mutateText, mutation } from './mutations.ts';
import { expectProperAnswer, findAnswerId } from './proper-answer.ts';

export function testMutations(given: () => WatchedAmbit): void {
  const runs = counts(150, 20_000);
  let ambit: WatchedAmbit;
  let client: JsonClient;

  beforeAll(async () => {
    ambit = given();
    client = await openClient(ambit.mcp('calm'), ambit.token);
  });
  const call = { name: 'echo', arguments: { text: 'héllo \u2028 \\u00e9', n: 12345678901234567890n.toString() } };
  const modernTexts = [
    modernRequest(7, 'tools/call', { ...call, _meta: { progressToken: 'p' } }),
    modernRequest('a"b', 'tools/call', { ...call, requestState: 'x' }),
  ].map((message) => JSON.stringify(message));
  const handshakeTexts = [
    { jsonrpc: '2.0', id: 7, method: 'tools/call', params: call },
    { jsonrpc: '2.0', id: 'seven', method: 'resources/subscribe', params: { uri: 'file:///r' } },
    { jsonrpc: '2.0', id: 7, result: { roots: [{ uri: 'file:///r' }] } },
    initializeRequest({ sampling: {} }),
  ].map((message) => JSON.stringify(message));

  async function harm(texts: readonly string[], headers: () => Record<string, string>): Promise<void> {
    const damages = fc.array(mutation, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...texts), damages, async (text, mutations) => {
        const body = mutateText(text, mutations);
        const said = await post(ambit.mcp('calm'), ambit.token, body, headers());
        expectProperAnswer(ambit, said, body.toString());
        // Of two ids in one message none is known; so the id is right, or there is none.
        if (said.status !== 202) expect([null, findAnswerId(body.toString())]).toContain(said.messages.at(-1)?.id);
      }),
      { numRuns: runs },
    );
    await ambit.expectHealthy();
  }

  test('modern requests, damaged in any way, get a proper answer', () =>
    harm(modernTexts, () => modernHeaders('tools/call', 'echo')));

  test('handshake-era messages, damaged in any way, get a proper answer', () =>
    harm(handshakeTexts, () => client.headers));
}
