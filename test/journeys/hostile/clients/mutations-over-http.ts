import fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { type Client, initialize, modernHeaders, modernRequest, openClient, post } from '../../json-mcp-client.ts';
import type { Patient } from '../start-watched-ambit.ts';
import { mutated, mutation } from './mutations.ts';
import { expectProper, knowableId } from './proper-answer.ts';

export function testMutations(given: () => Patient): void {
  const runs = counts(150, 20_000);
  let patient: Patient;
  let client: Client;

  beforeAll(async () => {
    patient = given();
    client = await openClient(patient.mcp('calm'), patient.token);
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
    initialize({ sampling: {} }),
  ].map((message) => JSON.stringify(message));

  async function harm(texts: readonly string[], headers: () => Record<string, string>): Promise<void> {
    const damages = fc.array(mutation, { minLength: 1, maxLength: 4 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...texts), damages, async (text, mutations) => {
        const body = mutated(text, mutations);
        const said = await post(patient.mcp('calm'), patient.token, body, headers());
        expectProper(patient, said, body.toString());
        // Of two ids in one message none is known; so the id is right, or there is none.
        if (said.status !== 202) expect([null, knowableId(body.toString())]).toContain(said.messages.at(-1)?.id);
      }),
      { numRuns: runs },
    );
    await patient.expectWell();
  }

  test('modern requests, damaged in any way, get a proper answer', () =>
    harm(modernTexts, () => modernHeaders('tools/call', 'echo')));

  test('handshake-era messages, damaged in any way, get a proper answer', () =>
    harm(handshakeTexts, () => client.headers));
}
