import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { counts } from '../../proof.ts';
import { seed } from '../../random-seed.ts';
import {
  connectHandshake,
  type HandshakeClient,
  modernBody,
  patience,
  readAnswer,
  sendModern,
} from '../raw-mcp-client.ts';
import { repository } from '../start-ambit.ts';
import { type EmbeddedAmbit, startEmbeddedAmbit } from '../start-embedded-ambit.ts';

const careless = {
  command: process.execPath,
  args: [join(repository, 'test/fixtures/hostile/takes-any-name.js')],
  tools: { deny: ['delete_*'], permissions: { 'admin_*': 'admin' } },
};
const rules = [
  { id: 'no-wipe', deny: '*__wipe' },
  { id: 'no-prod', deny: '*__write', when: "args.path.startsWith('prod/')" },
];

let ambit: EmbeddedAmbit;
let token: string;
let one: HandshakeClient;
let all: HandshakeClient;

beforeAll(async () => {
  ambit = await startEmbeddedAmbit({ servers: { careless }, rules });
  ({ token } = await ambit.open());
  one = await connectHandshake(ambit.mcp('careless'), token);
  all = await connectHandshake(`${ambit.url}/mcp`, token);
});

afterAll(() => ambit?.stop());

const call = (name: string, id = '"odd"') =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":${name},"arguments":{}}}`;

const callWith = (name: string, args: string) =>
  `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"${name}","arguments":${args}}}`;

describe('S3: a name that is not a string is refused', () => {
  const odd = ['["delete_all"]', '[["delete_all"]]', '{"toString":"delete_all"}', '7', 'true', 'null'];

  test.each(odd)('%s at both addresses, in both eras, with a journal line that says so', async (name) => {
    for (const client of [one, all]) {
      expect((await readAnswer(client.post(call(name)))).error?.code).toBe(-32602);
    }
    for (const url of [ambit.mcp('careless'), `${ambit.url}/mcp`, `${ambit.url}/mcp/ambit`]) {
      const body = modernBody({ params: `"name":${name},"arguments":{}` });
      const { error } = await readAnswer(sendModern(url, token, { name: 'delete_all' }, body));
      expect([-32602, -32020]).toContain(error?.code);
    }
    await vi.waitFor(
      async () => expect(await journal()).toContainEqual(expect.objectContaining({ outcome: '-32602' })),
      patience,
    );
  });

  test('and so is one with characters that some reader drops', async () => {
    for (const hidden of [
      '\u200b',
      '\u2028',
      '\ufe0f',
      '\ufe00',
      '\u034f',
      '\u115f',
      '\u2065',
      '\u{e0041}',
      '\u{e0100}',
    ]) {
      const name = JSON.stringify(`delete${hidden}_all`);
      for (const client of [one, all]) {
        const { error } = await readAnswer(client.post(call(name)));
        expect([name, error?.message]).toEqual([name, expect.stringContaining('invisible characters')]);
      }
    }
  });

  test('and so is a missing one, and a resource or a completion without a proper subject', async () => {
    const bodies = [
      '"method":"tools/call","params":{"arguments":{}}',
      '"method":"prompts/get","params":{"name":["p"]}',
      `"method":"tools/call","params":{"name":"${'n'.repeat(1025)}"}`,
      `"method":"resources/read","params":{"uri":"file:///${'./'.repeat(4096)}x"}`,
      '"method":"resources/read","params":{"uri":["file:///a"]}',
      '"method":"resources/subscribe","params":{"uri":{}}',
      '"method":"resources/unsubscribe","params":{"uri":1}',
      '"method":"completion/complete","params":{"ref":["ref/prompt"],"argument":{"name":"a","value":""}}',
      '"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":["p"]},"argument":{"name":"a","value":""}}',
      '"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p","name":"q"},"argument":{"name":"a","value":""}}',
      '"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p","Name":"q"},"argument":{"name":"a","value":""}}',
      '"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name\\u0000":"q","name":"p"},"argument":{"name":"a","value":""}}',
    ];
    for (const body of bodies) {
      for (const client of [one, all]) {
        const { error } = await readAnswer(client.post(`{"jsonrpc":"2.0","id":1,${body}}`));
        expect(error?.code, body).toBe(-32602);
      }
    }
  });
});

describe('S3: a server runs no denied tool, however the message is written', () => {
  const denied = ['delete_all', 'admin_reset', 'wipe'];
  const hex = (char: string) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`;
  const spellings = fc.constantFrom<(name: string) => string>(
    (name) => JSON.stringify(name),
    (name) => JSON.stringify([name]),
    (name) => JSON.stringify({ name }),
    (name) => `"${[...name].map(hex).join('')}"`,
    (name) => JSON.stringify(name.toUpperCase()),
    (name) => JSON.stringify(` ${name}\t`),
    (name) => JSON.stringify(`${name}\0x`),
    (name) => JSON.stringify(`${name.slice(0, 3)}\u200b${name.slice(3)}`),
    (name) => JSON.stringify(`\ufeff${name}`),
    (name) => JSON.stringify(name.replaceAll('e', 'ｅ').replaceAll('i', 'ｉ')),
    (name) => JSON.stringify(name.replaceAll('_', '＿').replaceAll('s', 'ſ')),
    (name) => `"${name}\\ud800"`,
  );
  const shapes = fc.constantFrom<(name: string) => string>(
    (name) => `"name":${name}`,
    (name) => `"name":"echo","name":${name}`,
    (name) => `"name":${name},"name":"echo"`,
    (name) => `"name":"echo","Name":${name}`,
    (name) => `"name":"echo","n\\u0061me":${name}`,
    (name) => `"n\\u0061me":${name}`,
    (name) => `"name":"echo","arguments":{"name":${name}}`,
    (name) => `"name":"echo","__proto__":{"name":${name}}`,
    (name) => `"__proto__":{"name":${name}}`,
    (name) => `"name\\u0000":${name},"name":"echo"`,
    (name) => `"name\\u0000x":${name},"name":"echo"`,
    (name) => `"name\\u200b":${name},"name":"echo"`,
  );
  const envelopes = fc.constantFrom<(params: string) => string>(
    (params) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${params}}}`,
    (params) => `{"params":{${params}},"method":"tools\\/call","id":1,"jsonrpc":"2.0"}`,
    (params) => `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{${params}}}`,
    (params) => `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"},"params":{${params}}}`,
    (params) => `{"jsonrpc":"2.0","id":1,"method":["tools/call"],"params":{${params}}}`,
    (params) => `{"jsonrpc":"2.0","id":1,"params\\u0000":{${params}},"method":"tools/call","params":{"name":"echo"}}`,
    (params) => `{"jsonrpc":"2.0","id":1.0,"method":"tools/call","params":{${params}}}`,
  );

  test('neither as JSON.parse reads it nor as a careless server does, or one that ends names at NUL', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...denied),
        spellings,
        shapes,
        envelopes,
        fc.boolean(),
        async (tool, spell, shape, envelop, atAll) => {
          const name = spell(atAll ? `careless__${tool}` : tool);
          const { result } = await readAnswer((atAll ? all : one).post(envelop(shape(name))));
          const text = result?.['isError'] === true ? undefined : result?.content?.[0]?.text;
          if (text === undefined) return;
          const { name: read, ran, inC } = JSON.parse(text) as { name: unknown; ran: string; inC: unknown };
          expect(denied).not.toContain(read);
          expect(denied).not.toContain(ran);
          expect(denied).not.toContain(inC);
        },
      ),
      { seed, numRuns: counts(100, 5000) },
    );
  });

  test('nor with arguments that a condition would have refused', async () => {
    const values = fc.constantFrom(
      '"prod/x"',
      '"\\u0070rod\\/x"',
      '["prod/x"]',
      '"dev/x"',
      '1e999',
      'null',
      '{}',
      '"\\ud800"',
    );
    const keys = fc.constantFrom(
      '"path"',
      '"Path"',
      '"PATH"',
      '"p\\u0061th"',
      '"p\uff41th"',
      '"path\\u0000"',
      '"path "',
      '"other"',
    );
    const members = fc.array(fc.tuple(keys, values), { maxLength: 3 });
    const around = fc.constantFrom<(inside: string) => string>(
      (inside) => `{${inside}}`,
      (inside) => `{${['"path":"dev/y"', inside].filter((each) => each !== '').join(',')}}`,
      (inside) => `{"__proto__":{${inside}}}`,
      (inside) => `{"path":"dev/y"},"arguments":{${inside}}`,
      (inside) => `{"path":"dev/y"},"Arguments":{${inside}}`,
      (inside) => `[{${inside}}]`,
    );
    let ran = 0;
    await fc.assert(
      fc.asyncProperty(members, around, fc.boolean(), async (inside, wrap, atAll) => {
        const args = wrap(inside.map((member) => member.join(':')).join(','));
        const { result } = await readAnswer(
          (atAll ? all : one).post(callWith(atAll ? 'careless__write' : 'write', args)),
        );
        const text = result?.['isError'] === true ? undefined : result?.content?.[0]?.text;
        if (text === undefined) return;
        ran++;
        const { paths } = JSON.parse(text) as { paths: string[] };
        expect(
          paths.filter((path) => path.startsWith('prod/')),
          args,
        ).toEqual([]);
      }),
      { seed, numRuns: counts(100, 5000) },
    );
    expect(ran).toBeGreaterThan(0);
  });
});

async function journal(): Promise<Record<string, unknown>[]> {
  const text = await readFile(join(ambit.dataDir, 'journal', 'journal.jsonl'), 'utf8');
  return text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}
