import { describe, expect, test } from 'vitest';
import { findListenProblems, isLoopbackHost, type ListenChoice } from '../../../src/config/schema/listen-rules.ts';
import { loadText, problemsOf } from '../load/load-text.ts';

test.each(['127.0.0.1', '127.255.255.254', '::1', '0:0:0:0:0:0:0:1', 'localhost', 'LOCALHOST'])(
  '%s is loopback',
  (host) => {
    expect(isLoopbackHost(host)).toBe(true);
  },
);

test.each([
  '',
  '0.0.0.0',
  '::',
  '0',
  '127.1',
  '0177.0.0.1',
  '2130706433',
  '127.0.0.1.example.com',
  '127.0.0.1 ',
  'localhost.',
  'localhost.example.com',
  '10.0.0.1',
  '::2',
  '::1%eth0',
  '[::1]',
  '::ffff:10.0.0.1',
  'fe80::1',
])('%j is not', (host) => {
  expect(isLoopbackHost(host)).toBe(false);
});

describe('listening', () => {
  const quiet: ListenChoice = { host: '127.0.0.1', behindProxy: false, anonymous: 'off', onInvalidKey: 'refuse' };
  const keysOf = (choice: Partial<ListenChoice>) =>
    findListenProblems({ ...quiet, ...choice }).map(({ path }) => path.join('.'));

  test.each<[Partial<ListenChoice>, string[]]>([
    [{}, []],
    [{ anonymous: 'loopback', onInvalidKey: 'anonymous' }, []],
    [{ host: '0.0.0.0' }, ['listen.host']],
    [{ host: '0.0.0.0', behindProxy: true }, []],
    [{ host: '0.0.0.0', anonymous: 'loopback' }, ['listen.host', 'auth.anonymous']],
    [{ host: '0.0.0.0', behindProxy: true, anonymous: 'loopback' }, ['auth.anonymous']],
    [{ behindProxy: true, anonymous: 'loopback' }, ['auth.anonymous']],
    [{ behindProxy: true, onInvalidKey: 'anonymous' }, ['auth.onInvalidKey']],
  ])('as %j is refused for %j', (choice, keys) => {
    expect(keysOf(choice)).toEqual(keys);
  });
});

test('a file that listens beyond loopback is refused with the way out, and taken when it says behindProxy', async () => {
  expect(await problemsOf('version: 1\nlisten:\n  host: 0.0.0.0\n')).toEqual([
    'ambit.yaml:3:9 listen.host: this address is not loopback, and TLS is not supported yet; set behindProxy: true if a proxy in front terminates TLS',
  ]);
  expect(await problemsOf('version: 1\nlisten:\n  host: 0.0.0.0\n  behindProxy: false\n')).toHaveLength(1);
  const { config } = await loadText('version: 1\nlisten: { host: 0.0.0.0, behindProxy: true }\n');
  expect(config.listen.host).toBe('0.0.0.0');
});
