import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { proof } from '../../proof.ts';
import type { Exchange } from '../http-exchange.ts';
import { connectHandshake, modernBody, modernMeta, readAnswer, readToolText, sendModern } from '../raw-mcp-client.ts';
import { type RecordedGateway, startRecordedGateway } from './start-recorded-gateway.ts';

let attacked: RecordedGateway;
let token: string;
type Send = (body: string) => Promise<Exchange>;
const eras: Record<'modern' | 'handshake', Send> = {
  modern: (body) => sendModern(attacked.pipe, token, { name: 'echo' }, body),
  handshake: () => Promise.reject(new Error('no handshake yet')),
};

beforeAll(async () => {
  attacked = await startRecordedGateway();
  ({ token } = await attacked.open());
  const client = await connectHandshake(attacked.pipe, token);
  eras.handshake = (body) => client.post(body);
});

afterAll(() => attacked?.stop());

const eraNames = ['modern', 'handshake'] as const;

/** A good call, of which each attack changes one thing. */
function good(change: (text: string) => string = (text) => text): string {
  return change(modernBody({ params: '"name":"echo","arguments":{}' }));
}

function asEra(era: (typeof eraNames)[number], body: string): string {
  return era === 'modern' ? body : body.replace(modernMeta, '"k":1');
}

const attacks: [string, (text: string) => string][] = [
  ['Method beside method', (text) => text.replace('"method"', '"Method":"tools/list","method"')],
  ['METHOD instead of method', (text) => text.replace('"method"', '"METHOD"')],
  ['method twice', (text) => text.replace('"method"', '"method":"tools/list","method"')],
  ['method twice, once escaped', (text) => text.replace('"method"', '"m\\u0065thod":"tools/list","method"')],
  ['Params beside params', (text) => text.replace('"params"', '"Params":{"name":"other"},"params"')],
  ['paramſ beside params', (text) => text.replace('"params"', '"paramſ":{"name":"other"},"params"')],
  ['id twice', (text) => text.replace('"id":1', '"id":1,"id":2')],
  ['Id beside id', (text) => text.replace('"id":1', '"id":1,"Id":2')],
  ['jsonrpc twice', (text) => text.replace('"jsonrpc"', '"jsonrpc":"2.0","jsonrpc"')],
  ['params.Name', (text) => text.replace('"name"', '"Name":"other","name"')],
  ['params.Name alone', (text) => text.replace('"name"', '"Name"')],
  ['params.name twice', (text) => text.replace('"name"', '"name":"other","name"')],
  ['params.name twice, once escaped', (text) => text.replace('"name"', '"n\\u0061me":"other","name"')],
  ['params.Arguments', (text) => text.replace('"arguments"', '"Arguments":{"x":1},"arguments"')],
  ['arguments twice', (text) => text.replace('"arguments"', '"arguments":{"x":1},"arguments"')],
  ['_meta twice', (text) => text.replace('"_meta"', '"_meta":{"ambit/context":1},"_meta"')],
  ['_Meta beside _meta', (text) => text.replace('"_meta"', '"_Meta":{"ambit/context":1},"_meta"')],
  ['a key of _meta twice', (text) => text.replace('"_meta":{', '"_meta":{"a":1,"a":2,')],
  [
    'a progress token in two spellings',
    (text) => text.replace('"_meta":{', '"_meta":{"progressToken":1,"progresstoken":2,'),
  ],
];

describe.each(eraNames)('two readings of one message, %s era', (era) => {
  // Both eras read a message by the same code: in `npm test` they take turns, in the proof each has everything.
  const turn = <T>(all: readonly T[]): T[] => all.filter((_, index) => proof || index % 2 === eraNames.indexOf(era));

  test.each(turn(attacks))('%s is refused with 400', async (_name, change) => {
    const sent = await eras[era](asEra(era, good(change)));
    expect(sent.status).toBe(400);
    const { error } = await readAnswer(sent);
    expect(error?.code).toBe(-32600);
  });

  test('a call without an id is refused with 400: its handles would pass unopened, its answer would have nowhere to go', async () => {
    const call = good((text) => text.replace('"id":1,', '').replace('"arguments":{}', '"requestState":"forged"'));
    expect((await eras[era](asEra(era, call))).status).toBe(400);
  });

  test('a cancellation with an id is refused with 400: the id it names would pass as it is', async () => {
    const meta = era === 'modern' ? modernMeta : '';
    const cancel = `{"jsonrpc":"2.0","id":1,"method":"notifications/cancelled","params":{"requestId":1,"_meta":{${meta}}}}`;
    expect((await eras[era](cancel)).status).toBe(400);
  });

  test('inside arguments anything goes, and arrives byte for byte', async () => {
    const args =
      '{"Name":1,"name":2,"name":3,"n\\u0061me":4,"_meta":{"ambit/context":1},"_Meta":{},"__proto__":{"x":1},"jsonrpc":"1.0","id":[],"id":{},"Method":"x","":0}';
    const body = asEra(
      era,
      good((text) => text.replace('"arguments":{}', `"arguments":${args}`)),
    );
    expect(await readToolText(eras[era](body))).toContain(`"arguments":${args}`);
  });

  test.each(
    turn(['null', '1.5', '1.0', '1e3', 'true', '[]', '{}', '9007199254740992', '-9007199254740992', '-0', '1E400']),
  )('the id %s is refused with 400', async (id) => {
    const sent = await eras[era](
      asEra(
        era,
        good((text) => text.replace('"id":1', `"id":${id}`)),
      ),
    );
    expect(sent.status).toBe(400);
    expect(await readAnswer(sent)).toMatchObject({ id: null, error: { code: -32600 } });
  });

  test.each(
    turn(['0', '-1', '9007199254740991', '-9007199254740991', '""', '"1"', '"\\u0061"', '"\\ud800"', '"null"', '"😀"']),
  )('the id %s comes back as it was written', async (id) => {
    const sent = await eras[era](
      asEra(
        era,
        good((text) => text.replace('"id":1', `"id":${id}`)),
      ),
    );
    expect(sent.status).toBe(200);
    expect((await sent.rest()).at(-1)).toContain(`"id":${id},`);
  });

  test.each(
    turn(['{', '', 'null', '"x"', '{"jsonrpc":"2.0"}', '{"jsonrpc":"2.0","id":1}', '\ufeff{}', '{"a":1}}', '{}']),
  )('the body %j is refused with 400', async (body) => {
    expect((await eras[era](body)).status).toBe(400);
  });
});

describe('arrays', () => {
  const list = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}';

  test('are refused in the modern era', async () => {
    expect((await eras.modern(`[${good()}]`)).status).toBe(400);
  });

  test.each(['2025-11-25', '2025-06-18'] as const)('are refused where %s was negotiated', async (version) => {
    const client = await connectHandshake(attacked.pipe, token, version);
    for (const header of [version, '2025-03-26']) {
      const sent = await client.post(` \n[${list}]`, { 'mcp-protocol-version': header });
      expect(sent.status).toBe(400);
      expect((await readAnswer(sent)).error?.code).toBe(-32600);
    }
  });

  test('are served where 2025-03-26 was negotiated, and every element is policed', async () => {
    const client = await connectHandshake(attacked.pipe, token, '2025-03-26');
    expect((await client.post(`[${list}]`)).status).toBe(200);
    for (const bad of [
      '[]',
      `[${list},7]`,
      `[${list},[${list}]]`,
      `[${list},${list.replace('"name"', '"Name":"x","name"')}]`,
      `[${list},${list.replace('"id":1', '"id":1.5')}]`,
      `[${list},${list.replace('"method":"tools/call"', '"method":"initialize"')}]`,
      `[${list},${good()}]`,
      `[${Array.from({ length: 65 }, () => list).join(',')}]`,
    ]) {
      expect((await client.post(bad)).status, bad.slice(0, 200)).toBe(400);
    }
  });
});

describe('headers that disagree with the body', () => {
  const body = modernBody({ params: '"name":"echo","arguments":{}' });

  test.each([
    ['another method', { 'mcp-method': 'tools/list' }],
    ['another case of the method', { 'mcp-method': 'Tools/Call' }],
    ['another tool', { 'mcp-name': 'slow' }],
    ['another case of the tool', { 'mcp-name': 'Echo' }],
    ['another tool, encoded', { 'mcp-name': `=?base64?${Buffer.from('slow').toString('base64')}?=` }],
    ['a broken encoding', { 'mcp-name': '=?base64?!!?=' }],
    ['two tools', { 'mcp-name': 'echo, echo' }],
    ['another revision', { 'mcp-protocol-version': '2025-11-25' }],
    ['a revision to come', { 'mcp-protocol-version': '2027-01-01' }],
  ])('%s: 400 and -32020', async (_name, headers) => {
    const sent = await sendModern(attacked.pipe, token, { name: 'echo', headers }, body);
    expect(sent.status).toBe(400);
    expect(await readAnswer(sent)).toMatchObject({ id: 1, error: { code: -32020 } });
  });

  test('a header that only says the same in base64 agrees', async () => {
    const headers = { 'mcp-name': `=?base64?${Buffer.from('echo').toString('base64')}?=` };
    expect((await sendModern(attacked.pipe, token, { headers }, body)).status).toBe(200);
  });

  test('no header at all: 400 and -32020', async () => {
    const sent = await sendModern(attacked.pipe, token, {}, body);
    expect(sent.status).toBe(400);
    expect((await readAnswer(sent)).error?.code).toBe(-32020);
  });
});

test.each(['/mcp/pipe/', '/mcp/PIPE', '/mcp/pipe%00', '/mcp/..%2fpipe', '/mcp//pipe', '/mcp/pipe;tube', '/MCP/pipe'])(
  'the path %s leads nowhere',
  async (path) => {
    const sent = await sendModern(attacked.ambit.url + path, token, { name: 'echo', params: '"name":"echo"' });
    expect(sent.status).toBe(404);
  },
);
