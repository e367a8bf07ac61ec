import { networkInterfaces } from 'node:os';
import { describe, expect, test } from 'vitest';
import { type HostAndPort, parseHostAndPort, type ResolveHost } from '../../../src/lib/net/host-and-port.ts';
import { isPrivateAddress } from '../../../src/lib/net/private-addresses.ts';
import { createAllowList, createConnectCheck } from '../../../src/sandbox/egress/connect-allowed.ts';

const to = (text: string) => parseHostAndPort(text) as HostAndPort;
const publicAddress = '93.184.215.14';

function find(entries: readonly string[], resolve: ResolveHost = async () => [publicAddress]) {
  const way = createConnectCheck(createAllowList(entries), resolve, () => ['93.184.215.99']);
  return (text: string) => way(to(text));
}

describe('a connection to a host', () => {
  test('is allowed where host and port are listed, and nowhere else', async () => {
    const way = find(['Api.Example.com.:443', 'bücher.example:80']);
    expect(await way('api.example.COM:443')).toEqual({ addresses: [publicAddress] });
    expect(await way('xn--bcher-kva.example:80')).toEqual({ addresses: [publicAddress] });
    for (const other of [
      'api.example.com:80',
      'example.com:443',
      'x.api.example.com:443',
      'api.example.com.evil:443',
    ]) {
      expect(await way(other), other).toEqual({ refused: 'not listed' });
    }
    expect(await way(`${publicAddress}:443`)).toEqual({ refused: 'not listed' });
    expect(await find([])('api.example.com:443')).toEqual({ refused: 'not listed' });
  });

  test('is allowed below a star, at any depth, and not at the name itself', async () => {
    const way = find(['*.example.com:443']);
    for (const name of ['a.example.com:443', 'a.b.example.com:443'])
      expect(await way(name)).toHaveProperty('addresses');
    for (const name of ['example.com:443', 'badexample.com:443', 'a.example.com:80', 'a.example.com.evil:443']) {
      expect(await way(name), name).toEqual({ refused: 'not listed' });
    }
  });

  test.each(
    [
      ...[
        '127.0.0.1',
        '127.8.8.8',
        '0.0.0.0',
        '10.1.2.3',
        '172.31.0.1',
        '192.168.1.1',
        '100.100.100.200',
        '169.254.169.254',
      ],
      ...['168.63.129.16', '192.0.0.192', '224.0.0.1', '255.255.255.255', '240.0.0.1', '198.18.0.1', '203.0.113.9'],
      ...[
        '::1',
        '::',
        '::ffff:10.0.0.1',
        '::ffff:a9fe:a9fe',
        '::7f00:1',
        'fe80::1',
        'fe80::1%eth0',
        'fd00:ec2::254',
        'ff02::1',
      ],
      ...[
        '64:ff9b::7f00:1',
        '64:ff9b::a9fe:a9fe',
        '64:ff9b:1::1',
        '2002:7f00:1::',
        '2001::1',
        '2001:db8::1',
        'fec0::1',
        '100::1',
      ],
    ].map((address) => [address]),
  )('a name that leads to %s is refused', async (address) => {
    const answer = await find(['api.example.com:443'], async () => [address])('api.example.com:443');
    expect(answer).not.toHaveProperty('addresses');
    expect(isPrivateAddress(address)).toBe(true);
  });

  test('public addresses are not special, and those of this machine are', () => {
    for (const address of [
      publicAddress,
      '1.1.1.1',
      '2606:4700::1111',
      '64:ff9b::101:101',
      '169.253.1.1',
      '172.32.0.1',
    ])
      expect(
        isPrivateAddress(address, () => []),
        address,
      ).toBe(false);
    expect(isPrivateAddress(publicAddress, () => [publicAddress])).toBe(true);
    const own = Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
    for (const address of own) expect(isPrivateAddress(address), address).toBe(true);
  });

  test.each([
    ['0.0.0.0', '0.255.255.255', ['1.0.0.0']],
    ['10.0.0.0', '10.255.255.255', ['9.255.255.255', '11.0.0.0']],
    ['100.64.0.0', '100.127.255.255', ['100.63.255.255', '100.128.0.0']],
    ['127.0.0.0', '127.255.255.255', ['126.255.255.255', '128.0.0.0']],
    ['168.63.129.16', '168.63.129.16', ['168.63.129.15', '168.63.129.17']],
    ['169.254.0.0', '169.254.255.255', ['169.253.255.255', '169.255.0.0']],
    ['172.16.0.0', '172.31.255.255', ['172.15.255.255', '172.32.0.0']],
    ['192.0.0.0', '192.0.0.255', ['191.255.255.255', '192.0.1.0']],
    ['192.0.2.0', '192.0.2.255', ['192.0.1.255', '192.0.3.0']],
    ['192.88.99.0', '192.88.99.255', ['192.88.98.255', '192.88.100.0']],
    ['192.168.0.0', '192.168.255.255', ['192.167.255.255', '192.169.0.0']],
    ['198.18.0.0', '198.19.255.255', ['198.17.255.255', '198.20.0.0']],
    ['198.51.100.0', '198.51.100.255', ['198.51.99.255', '198.51.101.0']],
    ['203.0.113.0', '203.0.113.255', ['203.0.112.255', '203.0.114.0']],
    ['224.0.0.0', '255.255.255.255', ['223.255.255.255']],
    ['::', '1fff:ffff::ffff', ['2000::']],
    ['2001::', '2001:1ff:ffff::ffff', ['2000:ffff::ffff', '2001:200::']],
    ['2001:db8::', '2001:db8:ffff::ffff', ['2001:db7:ffff::ffff', '2001:db9::']],
    ['2002::', '2002:ffff::ffff', ['2001:ffff::ffff', '2003::']],
    ['3fff::', '3fff:fff:ffff::ffff', ['3ffe:ffff::ffff', '3fff:1000::']],
    ['4000::', 'ffff:ffff::ffff', ['3fff:ffff::ffff']],
  ])('the addresses from %s to %s are special, and those beside them are not', (first, last, beside) => {
    const verdicts = [first, last, ...beside].map((address) => isPrivateAddress(address, () => []));
    expect(verdicts).toEqual([true, true, ...beside.map(() => false)]);
  });

  test('what is not public needs to be listed itself, with its port', async () => {
    const inside: ResolveHost = async () => ['10.0.0.7'];
    expect(await find(['10.0.0.7:443'])('10.0.0.7:443')).toEqual({ addresses: ['10.0.0.7'] });
    expect(await find(['[fd00::7]:443'])('[FD00:0::7]:443')).toEqual({ addresses: ['fd00::7'] });
    expect(await find(['db.example:443'], inside)('db.example:443')).toEqual({
      refused: 'resolves to 10.0.0.7:443, which is not a public address and is not listed itself',
    });
    expect(await find(['db.example:443', '10.0.0.7:80'], inside)('db.example:443')).toHaveProperty('refused');
    expect(await find(['db.example:443', '10.0.0.7:443'], inside)('db.example:443')).toEqual({
      addresses: ['10.0.0.7'],
    });
  });

  test('of several addresses only those that may be reached are tried', async () => {
    const mixed: ResolveHost = async () => ['127.0.0.1', publicAddress, '::1', '169.254.169.254'];
    expect(await find(['a.example:443'], mixed)('a.example:443')).toEqual({ addresses: [publicAddress] });
  });

  test('localhost is this machine, listed by that name, whatever a resolver says', async () => {
    const lying: ResolveHost = async () => [publicAddress];
    expect(await find(['localhost:80'], lying)('localhost:80')).toEqual({ addresses: ['127.0.0.1', '::1'] });
    expect(await find(['a.example:80'], lying)('localhost:80')).toEqual({ refused: 'not listed' });
  });

  test('a name is resolved once, however many connect at the same time, and only when it is listed', async () => {
    const asked: string[] = [];
    const way = find(['a.example:443'], async (host) => {
      asked.push(host);
      return [publicAddress];
    });
    await Promise.all([way('a.example:443'), way('A.example.:443'), way('b.example:443')]);
    expect(asked).toEqual(['a.example']);
  });

  test('at most four names are resolved at a time, and at most four addresses are tried', async () => {
    const answers: ((addresses: string[]) => void)[] = [];
    const way = find(['*.example:443'], () => new Promise((answer) => answers.push(answer)));
    const four = ['a', 'b', 'c', 'd'].map((name) => way(`${name}.example:443`));
    expect(await way('e.example:443')).toEqual({ failed: 'too many names at once' });
    const many = ['1.1.1.1', '1.1.1.2', '1.1.1.3', '1.1.1.4', '1.1.1.5'];
    for (const answer of answers) answer(many);
    expect(await Promise.all(four)).toEqual(Array(4).fill({ addresses: many.slice(0, 4) }));
  });

  test('a name that does not exist is no refusal', async () => {
    const none: ResolveHost = async () => Promise.reject(Object.assign(new Error(), { code: 'ENOTFOUND' }));
    expect(await find(['a.example:443'], none)('a.example:443')).toEqual({ failed: 'ENOTFOUND' });
  });
});
