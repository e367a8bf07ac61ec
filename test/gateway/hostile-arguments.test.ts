import { expect, test } from 'vitest';
import { callModern, connectHandshake, readToolText } from '../journeys/raw-mcp-client.ts';
import { defineServer, openBoundedGateway } from './bounded-gateway.ts';

const on = openBoundedGateway();

/** Each would be allowed by whoever reads only its first, or most harmless, half. */
const hostile = [
  '{"path":"ok","path":"prod/x"}',
  String.raw`{"path":"ok","p\u0061th":"prod/x"}`,
  '{"path":"ok","PATH":"prod/x"}',
  '{"Path":"prod/x"}',
  '{"__proto__":{"path":"ok"}}',
  '{"constructor":{"prototype":{"path":"ok"}}}',
  '{"path":["ok"]}',
  '{"path":null}',
  String.raw`{"path":"\ud800"}`,
  '{"path":"ok","n":123456789012345678901234567890}',
  `{"path":"ok","deep":${'['.repeat(300)}${']'.repeat(300)}}`,
  `{"path":"${'a'.repeat(900_000)}!"}`,
  '["path"]',
  '"path"',
  'null',
];

test('hostile arguments reach no tool whose rule reads them, at either address and in either era', async () => {
  const rules = [
    { id: 'no-prod', deny: 'keep__mark', when: `args.path.startsWith('prod/')` },
    { id: 'no-hang', deny: 'keep__mark', when: `re(args.path, '^(a+)+$')` },
  ];
  await on.start('modern', { rules, servers: { keep: defineServer('modern') } });
  const { token } = await on.gateway.createSession();
  const { url } = await on.gateway.listen({ host: '127.0.0.1', port: 0 });
  const client = await connectHandshake(`${url}/mcp`, token);
  expect(await readToolText(callModern(`${url}/mcp/keep`, token, 'mark', '{"path":"ok"}'))).toBe('done');
  for (const args of hostile) {
    const said = [
      await readToolText(callModern(`${url}/mcp/keep`, token, 'mark', args)),
      await readToolText(callModern(`${url}/mcp`, token, 'keep__mark', args)),
      await readToolText(client.call('keep__mark', args)),
    ];
    for (const words of said) expect(words, args.slice(0, 60)).toMatch(/^PERMISSION_DENIED: .*no-(?:prod|hang)/);
  }
  // What no rule reads is nobody's to judge: the same arguments pass as they are.
  const [twice = ''] = hostile;
  expect(await readToolText(callModern(`${url}/mcp/keep`, token, 'anything', twice))).toBe('done');
  // Nothing of it stays: the next plain call is decided as the first was.
  expect(await readToolText(client.call('keep__mark', '{"path":"ok"}'))).toBe('done');
});

test('a name in disguise is the name it says', async () => {
  await on.start('modern', { servers: { keep: { ...defineServer('modern'), tools: { deny: ['mark'] } } } });
  const { token } = await on.gateway.createSession();
  const { url } = await on.gateway.listen({ host: '127.0.0.1', port: 0 });
  const client = await connectHandshake(`${url}/mcp/keep`, token);
  const all = await connectHandshake(`${url}/mcp`, token);
  expect(await readToolText(client.call(String.raw`m\u0061rk`, '{}'))).toMatch(/^PERMISSION_DENIED/);
  expect(await readToolText(all.call(String.raw`keep__m\u0061rk`, '{}'))).toMatch(/^PERMISSION_DENIED/);
  expect(await readToolText(all.call(String.raw`keep\u005f_mark`, '{}'))).toMatch(/^PERMISSION_DENIED/);
  // A call without an id, and one with two names, are no calls at all.
  for (const params of ['"name":"slow","name":"mark"', '"name":"slow","Name":"mark"']) {
    const sent = await client.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{${params}}}`);
    expect(sent.status).toBe(400);
  }
  const unanswered = await client.post('{"jsonrpc":"2.0","method":"tools/call","params":{"name":"mark"}}');
  expect(unanswered.status).toBe(400);
});
