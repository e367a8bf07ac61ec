import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { callModern, connectHandshake } from '../raw-mcp-client.ts';
import { type ObservedGateway, startObservedGateway } from './start-observed-gateway.ts';

const forged =
  '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"big": 12345678901234567890,  "_meta" : {"ambit/session":{"sessionId":"forged"},"keep":1.0}}}';
const bare = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[],"big": 12345678901234567890}}';
const empty = '{"jsonrpc":"2.0","id":$ID,"result":{}}';
const twice = '{"jsonrpc":"2.0","id":$ID,"result":{"_meta":{"a":1},"content":[],"_meta":{"ambit/session":1}}}';
const failed = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-1,"message":"no"}}';

function lines(line: string): string {
  return JSON.stringify({ lines: [line] });
}

type Session = Awaited<ReturnType<ObservedGateway['gateway']['createSession']>>;
let quiet: ObservedGateway;
let naming: ObservedGateway;
let one: Session;
let two: Session;
beforeAll(async () => {
  [quiet, naming] = await Promise.all([
    startObservedGateway(),
    startObservedGateway({ sessions: { includeMeta: true } }),
  ]);
  [one, two] = await Promise.all([quiet.gateway.createSession(), naming.gateway.createSession()]);
});
afterAll(async () => {
  await Promise.all([quiet.closed(), naming.closed()]);
});

type Say = (on: ObservedGateway, token: string, server: string, tool: string, args: string) => Promise<string>;
const eras: Record<string, Say> = {
  modern: async (on, token, server, tool, args) =>
    (await (await callModern(`${on.url}/mcp/${server}`, token, tool, args)).rest()).at(-1) ?? '',
  handshake: async (on, token, server, tool, args) => {
    const client = await connectHandshake(`${on.url}/mcp/${server}`, token);
    return (await (await client.call(tool, args)).rest()).at(-1) ?? '';
  },
};

describe.each(Object.keys(eras))('a client of the %s era', (era) => {
  const say = eras[era] as Say;

  test.each(['pipe', 'old', 'new'])(
    'L14: results of %s name session and exchange, and are else what they were',
    async (server) => {
      for (const line of [bare, forged, empty]) {
        const plain = await say(quiet, one.token, server, 'say', lines(line));
        expect(plain).not.toContain('ambit/session');
        const named = await say(naming, two.token, server, 'say', lines(line));
        const member = /"ambit\/session":\{"sessionId":"([0-9a-f]{32})","correlationId":"[0-9a-f-]{36}"\},?/;
        expect(member.exec(named)?.[1]).toBe(two.id);
        const without = named.replace(member, '').replace(/"_meta":\{\},?/, '');
        expect(without).toBe(plain.replace(/"_meta":\{\},?/, ''));
        expect(named).not.toContain('forged');
      }
    },
  );

  test('L14: a reader of the last of two `_meta` finds it', async () => {
    const { result } = JSON.parse(await say(naming, two.token, 'pipe', 'say', lines(twice))) as {
      result: { _meta: object };
    };
    expect(result._meta).toEqual({ 'ambit/session': { sessionId: two.id, correlationId: expect.any(String) } });
  });

  test('L14: an error has no result to name it in; a refused call has', async () => {
    expect(await say(naming, two.token, 'pipe', 'say', lines(failed))).not.toContain('ambit/session');
    const limited = await naming.gateway.createSession({ servers: ['old'] });
    const url = `${naming.url}/mcp/pipe`;
    const refused = (await (await callModern(url, limited.token, 'say', '{}')).rest()).at(-1) ?? '';
    expect(JSON.parse(refused)).toMatchObject({
      result: {
        isError: true,
        _meta: { 'ambit/error': { code: 'SERVER_NOT_AVAILABLE' }, 'ambit/session': { sessionId: limited.id } },
      },
    });
    expect(refused).not.toContain(two.id);
  });
});

test('L14: a caller with an invalid token is shown no session', async () => {
  const answer = await callModern(`${naming.url}/mcp/pipe`, 'ambs_x_y', 'say', lines(bare));
  expect((await answer.rest()).join()).not.toContain('ambit/session');
});

test('L14: the exchange named is the one in the journal', async () => {
  const said = await (eras['modern'] as Say)(naming, two.token, 'pipe', 'say', lines(bare));
  const { result } = JSON.parse(said) as { result: { _meta: { 'ambit/session': { correlationId: string } } } };
  await expect
    .poll(naming.journal, { timeout: 50_000 })
    .toContain(`"id":"${result._meta['ambit/session'].correlationId}"`);
});
