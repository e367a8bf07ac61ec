import { request } from 'node:http';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type LoginCallback, listenForCallback } from '../../../src/cli/commands/login.ts';

let callback: LoginCallback;
beforeEach(async () => {
  callback = await listenForCallback(60_000);
});
afterEach(() => callback.close());

interface RequestOptions {
  readonly method?: string;
  readonly host?: string;
}

/** The status of one request to the port that waits for the browser. */
function sendRequest(
  path: string,
  { method = 'GET', host = `127.0.0.1:${callback.port}` }: RequestOptions = {},
): Promise<number> {
  return new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: callback.port, path, method, headers: { host }, agent: false };
    const asking = request(options, (response) => {
      response.resume().on('end', () => resolve(response.statusCode ?? 0));
    });
    asking.on('error', reject).end();
  });
}

test('a request that is not the expected callback is answered 404 and does not end the wait', async () => {
  expect(await sendRequest('/callback?state=right')).toBe(404);
  const finished: string[] = [];
  const coming = callback.waitFor('right', async (address) => void finished.push(address));
  expect(await sendRequest('/callback?state=wrong')).toBe(404);
  expect(await sendRequest('/callback')).toBe(404);
  expect(await sendRequest('/other?state=right')).toBe(404);
  expect(await sendRequest('/callback?state=right', { method: 'POST' })).toBe(404);
  // A web page reaches this port by a name of its own, by DNS rebinding.
  for (const host of ['evil.example', `evil.example:${callback.port}`, `localhost:${callback.port}`, '127.0.0.1']) {
    expect(await sendRequest('/callback?state=right', { host })).toBe(404);
  }
  expect(finished).toEqual([]);
  expect(await sendRequest('/callback?state=right&code=1')).toBe(200);
  await coming;
  expect(finished).toEqual([`http://127.0.0.1:${callback.port}/callback?state=right&code=1`]);
});

test('the callback is taken once, also while the first one is still being handled', async () => {
  const finished: string[] = [];
  let finish = () => {};
  let begun = () => {};
  const beginning = new Promise<void>((resolve) => {
    begun = resolve;
  });
  const coming = callback.waitFor('right', (address) => {
    finished.push(address);
    begun();
    if (finished.length > 1) return Promise.resolve();
    return new Promise<void>((resolve) => {
      finish = resolve;
    });
  });
  const first = sendRequest('/callback?state=right&code=1');
  await beginning;
  const second = await sendRequest('/callback?state=right&code=2');
  finish();
  expect(second).toBe(404);
  expect(await first).toBe(200);
  await coming;
  expect(await sendRequest('/callback?state=right&code=3')).toBe(404);
  expect(finished).toHaveLength(1);
});
