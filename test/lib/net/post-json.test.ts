import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { expect, test } from 'vitest';
import { postJson } from '../../../src/lib/net/post-json.ts';
import { createGuardedFetch } from '../../../src/upstreams/auth/guarded-fetch.ts';

const signal = new AbortController().signal;
const guardedFetch = createGuardedFetch({ addressesOf: async () => ['127.0.0.1'], assertForBrowser() {} });

test.each([
  [
    'another protocol',
    'HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes',
    /no answer/,
    /connection was lost/,
  ],
  ['a status that is none', 'HTTP/1.1 000 X\r\n\r\n', /status 0/, /500/],
  ['a status above all', 'HTTP/1.1 999 X\r\n\r\n', /status 999/, /200 to 599/],
  ['a control character in a header', 'HTTP/1.1 200 X\r\nLocation: \u0001\r\n\r\n', /HPE_/, /Parse Error/],
])('S7: a receiver or a login server that answers with %s blocks nobody', async (_, words, posted, fetched) => {
  const hostile = createServer((socket) => socket.on('error', () => {}).once('data', () => socket.end(words)));
  await once(hostile.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(hostile.address() as AddressInfo).port}/`;
  expect(await postJson(new URL(url), {}, '{}', signal)).toMatchObject({ why: expect.stringMatching(posted) });
  const asking = guardedFetch(url, { method: 'GET', headers: {} });
  expect(await asking.then(({ status }) => String(status), String)).toMatch(fetched);
  hostile.close();
});
