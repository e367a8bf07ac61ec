import { afterAll, beforeAll, expect, test } from 'vitest';
import { counts } from '../../proof.ts';
import { modernHeaders, modernRequest, post } from './mcp-calls.ts';
import { sendAll } from './proper-answer.ts';
import { type Patient, startPatient } from './vital-signs.ts';
import { variantsOf } from './wrong-types.ts';

let patient: Patient;

beforeAll(async () => {
  patient = await startPatient({});
});
afterAll(() => patient?.stop());

const call = { name: 'echo', arguments: { text: 'hello', deep: { list: [1] } } };
const related = { 'io.modelcontextprotocol/related-task': { taskId: 'none' } };
const ref = { type: 'ref/prompt', name: 'p' };

test.each([
  modernRequest(7, 'tools/call', { ...call, _meta: { progressToken: 3, ...related } }),
  modernRequest('seven', 'tools/call', { ...call, requestState: 'none', inputResponses: { a: { action: 'accept' } } }),
  modernRequest(7, 'tools/list', { cursor: 'c' }),
  modernRequest(7, 'server/discover'),
  modernRequest(7, 'prompts/get', { name: 'p', arguments: { a: 'b' } }),
  modernRequest(7, 'resources/read', { uri: 'file:///r' }),
  modernRequest(7, 'tasks/get', { taskId: 't' }),
  modernRequest(7, 'completion/complete', { ref, argument: { name: 'a', value: 'b' } }),
  { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7, reason: 'r' } },
])('$method with every value of every wrong type', async (message) => {
  const { name, uri, taskId } = message.params as { name?: string; uri?: string; taskId?: string };
  const headers = modernHeaders(message.method, name ?? uri ?? taskId);
  const sent = await sendAll(patient, variantsOf(message), (text) =>
    post(patient.mcp('calm'), patient.token, text, headers),
  );
  expect(sent).toBeGreaterThan(counts(16, 50));
  await patient.expectWell();
});
