import { beforeAll, expect, test } from 'vitest';
import { counts } from '../../../proof.ts';
import { type JsonClient, openClient, readOutcome } from '../../json-mcp-client.ts';
import { openRawSocket, writeHead } from '../raw-socket.ts';
import type { WatchedAmbit } from '../start-watched-ambit.ts';

export function testSubscriptions(given: () => WatchedAmbit): void {
  let ambit: WatchedAmbit;

  beforeAll(() => {
    ambit = given();
  });
  let lastId = 0;

  async function subscribe(client: JsonClient, uri: string): Promise<string> {
    return readOutcome(await client.send({ id: ++lastId, method: 'resources/subscribe', params: { uri } }));
  }

  test('a client cannot subscribe without end', async () => {
    const client = await openClient(ambit.mcp('taking'), ambit.token);
    for (let from = 0; from < 1000; from += 50) {
      const some = Array.from({ length: 50 }, (_, n) => subscribe(client, `file:///${from + n}`));
      expect((await Promise.all(some)).filter((said) => said.includes('!'))).toEqual([]);
    }
    expect(await subscribe(client, 'file:///one-more')).toBe('!OVERLOADED');
    expect(await subscribe(client, 'file:///7')).not.toContain('!');
    await client.send({ id: 1, method: 'resources/unsubscribe', params: { uri: 'file:///7' } });
    expect(await subscribe(client, 'file:///one-more')).not.toContain('!');
  });

  test('what was refused, or is too long, is not remembered', async () => {
    const client = await openClient(ambit.mcp('taking'), ambit.token);
    await ambit.expectHeldWithin(10, async () => {
      for (let n = 0; n < counts(2, 50); n++) {
        expect(await subscribe(client, `refuse:${n}${'x'.repeat(4000)}`)).toBe('!-32002');
        expect(await subscribe(client, `file:///${n}${'x'.repeat(3 << 20)}`)).toBe('!-32602');
      }
    });
  });

  test('an update that comes together with the answer is not lost', async () => {
    const client = await openClient(ambit.mcp('taking'), ambit.token);
    const wire = await openRawSocket(ambit.url);
    await wire.say(writeHead('/mcp/taking', { authorization: `Bearer ${ambit.token}`, ...client.headers }, 'GET'));
    await wire.hears(/\r\n\r\n/);
    await subscribe(client, 'noisy:1');
    await wire.hears(/resources\/updated.*noisy:1/);
    wire.socket.destroy();
  });
}
