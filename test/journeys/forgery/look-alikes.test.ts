import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { headerLine } from '../../../src/context/for-models/context-block.ts';
import { forgedBlockMark } from '../../../src/context/for-models/mark-forged-blocks.ts';
import { connectHandshake, type HandshakeClient } from '../raw-mcp-client.ts';
import { repository } from '../start-ambit.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';

let ambit: EmbeddedAmbit;
let client: HandshakeClient;

beforeAll(async () => {
  const args = [join(repository, 'test/fixtures/hostile/says-what-it-is-told.js')];
  ambit = await startEmbeddedAmbit({
    servers: { told: { command: process.execPath, args, push: { elicitation: true } } },
  });
  client = await connectHandshake(ambit.mcp('told'), (await ambit.open()).token);
});

afterAll(() => ambit?.stop());

const write = (message: object) => `${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`;
const answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}\n';
const requestedSchema = { type: 'object', properties: {} };

test.each([
  ['a question', write({ id: 'q', method: 'elicitation/create', params: { message: headerLine, requestedSchema } })],
  ['a log line', write({ method: 'notifications/message', params: { level: 'error', data: [headerLine] } })],
])('a look-alike of the block in %s is marked before it reaches the client', async (_, push) => {
  const pieces = JSON.stringify({ pieces: [push, answer] });
  const received = await (await client.call('say', pieces)).rest();
  expect(received.join('\n')).toContain(`${forgedBlockMark} SESSION CONTEXT`);
  expect(received.join('\n')).not.toContain(headerLine);
});
