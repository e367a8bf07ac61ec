import { describe, expect, test } from 'vitest';
import { formatHostAndPort, parseHostAndPort } from '../../../src/lib/net/host-and-port.ts';

describe('readHostAndPort', () => {
  test.each([
    ['api.example.com:443', 'api.example.com', 443],
    ['API.Example.COM.:443', 'api.example.com', 443],
    ['bücher.example:80', 'xn--bcher-kva.example', 80],
    ['XN--BCHER-KVA.example:80', 'xn--bcher-kva.example', 80],
    ['ｅｘａｍｐｌｅ。com:80', 'example.com', 80],
    ['192.0.2.1:8080', '192.0.2.1', 8080],
    ['[2001:DB8:0:0:0:0:0:1]:443', '2001:db8::1', 443],
    ['[::ffff:127.0.0.1]:80', '127.0.0.1', 80],
    ['[::ffff:7f00:1]:80', '127.0.0.1', 80],
    ['localhost:65535', 'localhost', 65_535],
  ])('parses %s as %s, %i', (text, host, port) => {
    const read = parseHostAndPort(text);
    expect(read).toMatchObject({ host, port });
    expect(parseHostAndPort(formatHostAndPort(read as { host: string; port: number }))).toEqual(read);
  });

  test.each([
    ...['', ':443', 'host', 'host:', 'host:0', 'host:65536', 'host:0443', 'host:+1', 'host:443 ', ' host:443', 'a:1:2'],
    ...[
      'user@host:443',
      'good.example:443@evil.example:443',
      'good.example#.evil.example:443',
      'a/b:1',
      'a\\b:1',
      'a?b:1',
    ],
    ...[
      'good.example\0.evil.example:443',
      'good.example\r\n:443',
      'good.example%00:443',
      'good%2eexample:443',
      'a b:443',
    ],
    ...['127.1:80', '0x7f.0.0.1:80', '0177.0.0.1:80', '2130706433:80', '127.0.0.1.:80', '1.2.3:80', 'example.1:80'],
    ...['１２７.1:80', '[::1%eth0]:80', '[127.0.0.1]x:80', '[::1:80', '::1:80', '[::g]:80', '[]:80'],
    ...['a..b:80', '.a:80', '..:80', '-a.example:80', `${'a'.repeat(64)}.example:80`, `${'a.'.repeat(130)}b:80`],
    ...['*.example.com:443', 'xn--a.example:80', 'exa\u200bmple.com:80', 'exam\u00adple.com:80'],
  ])('refuses %j', (text) => {
    expect(parseHostAndPort(text)).toBeUndefined();
  });
});
