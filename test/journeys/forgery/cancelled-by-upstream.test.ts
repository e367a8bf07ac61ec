import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callModern, connectHandshake } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;

beforeAll(async () => {
  attacked = await startRecordedGateway();
  ({ token } = await attacked.open());
});

afterAll(() => attacked?.stop());

const cancelled = (id: string) =>
  `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${id},"reason":"r"}}`;
const done = '{"jsonrpc":"2.0","id":$ID,"result":{}}';

// An id means something to one side only: as the upstream wrote it, it would hit whatever the client calls so.
describe.each(['pipe', 'web'] as const)('%s calling something off', (server) => {
  test('its own question: under the name the client knows it by', async () => {
    const client = await connectHandshake(attacked[server], token);
    const ask = '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}';
    const lines = [ask, cancelled('"other"'), cancelled('1'), cancelled('"q"'), done];
    const all = await (await client.call('say', JSON.stringify({ lines }))).rest();
    const { id } = JSON.parse(all[0]!) as { id: number };
    expect(all.slice(1)).toEqual([cancelled(String(id)), '{"jsonrpc":"2.0","id":1,"result":{}}']);
  });

  test('a modern request: under the id its client gave it, or not at all', async () => {
    const lines = [cancelled('999'), cancelled('"mine"'), cancelled('$ID'), done];
    const sent = await callModern(attacked[server], token, 'say', JSON.stringify({ lines }), { id: '"mine"' });
    expect(await sent.rest()).toEqual([cancelled('"mine"'), '{"jsonrpc":"2.0","id":"mine","result":{}}']);
  });
});
