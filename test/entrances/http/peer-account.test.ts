import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import {
  createIsOwnPeer,
  findPeerAccount,
  getCredential,
  markForeign,
} from '../../../src/entrances/http/admit-caller.ts';
import { AmbitError } from '../../../src/errors.ts';
import { createIdentify } from '../../../src/gateway/stages/authenticate.ts';
import { mintToken } from '../../../src/identity/token.ts';
import type { Sessions } from '../../../src/sessions/sessions.ts';

/** Our end of a real connection to `host`, and what the system's tables say while it stands. */
async function connection(host: string, target = host) {
  const server = createServer().listen(0, host);
  await new Promise((resolve) => server.once('listening', resolve));
  const { port } = server.address() as { port: number };
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  const client = connect(port, target);
  const socket = await accepted;
  onTestFinished(() => {
    client.destroy();
    socket.destroy();
    server.close();
  });
  const { remoteAddress, remotePort, localAddress, localPort } = socket;
  const tables = ['/proc/net/tcp', '/proc/net/tcp6'].map((file) => readFileSync(file, 'latin1')).join('\n');
  return { client, socket, tables, ends: { remoteAddress, remotePort, localAddress, localPort } };
}

const own = new Set([String(process.getuid?.())]);

test.each([['127.0.0.1'], ['::1'], ['127.0.0.1', '::ffff:127.0.0.1']])(
  'S2: whose a connection to %s is',
  async (...at) => {
    const { tables, ends } = await connection(...(at as [string]));
    expect(findPeerAccount(tables, ends, own)).toBe('own');
    expect(findPeerAccount(tables, ends, new Set(['4711']))).toBe('other');
    expect(findPeerAccount(tables, { ...ends, localPort: undefined }, own)).toBe('gone');
    expect(findPeerAccount('', ends, own)).toBe('unknown');
    expect(findPeerAccount(tables, { ...ends, localPort: 1 }, own)).toBe('unknown');
  },
);

test('S2: who sends and leaves at once is not taken for root, whom closed sockets seem to belong to', async () => {
  for (const leave of ['destroy', 'resetAndDestroy'] as const) {
    const { client, socket } = await connection('127.0.0.1');
    // What the system says of a connection that was reset.
    socket.on('error', () => {});
    const gone = new Promise((resolve) => client.once('close', resolve));
    client[leave]();
    await gone;
    expect(await createIsOwnPeer()(socket)).toBe(false);
  }
});

test('it is looked up once for each connection, and read for all who ask at a time', async () => {
  const [one, two] = [await connection('127.0.0.1'), await connection('127.0.0.1')];
  let reads = 0;
  const isOwnPeer = createIsOwnPeer(async () => {
    reads++;
    return `${one.tables}\n${two.tables}`;
  });
  const asked = [one, two, one, two].map(({ socket }) => isOwnPeer(socket));
  expect(await Promise.all(asked)).toEqual([true, true, true, true]);
  expect([isOwnPeer(one.socket), reads]).toEqual([true, 1]);
});

test('S2: a connection of another account is not one of this machine, whatever credential it carries later', async () => {
  const identify = createIdentify({
    sessions: {} as Sessions,
    keys: { verify: () => Promise.reject(new AmbitError('UNAUTHENTICATED')) },
    anonymous: 'loopback',
    onInvalidKey: 'anonymous',
    log: { info() {}, warn() {} },
  });
  const socket = { remoteAddress: '127.0.0.1' };
  const request = { socket, headers: { authorization: `Bearer ${mintToken('ambk', '0'.repeat(32)).token}` } };
  const credential = () => getCredential(request as unknown as IncomingMessage);
  expect((await identify(credential())).kind).toBe('anonymous');
  markForeign(socket as unknown as Socket);
  await expect(identify(credential())).rejects.toMatchObject({ code: 'UNAUTHENTICATED' });
});
