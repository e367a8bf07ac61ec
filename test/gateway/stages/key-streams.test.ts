import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { bearerHeader, connectHandshake, sendModern } from '../../journeys/raw-mcp-client.ts';
import { createKeyFor, findSession } from '../keyed-gateway.ts';
import { createSharedData } from '../shared-data.ts';

const data = createSharedData();
const listen = { method: 'subscriptions/listen', params: '"notifications":{"toolsListChanged":true}' };
const own = () => data.serve({ sessions: { allowDirect: 'always' }, governance: { carrier: 'instructions' } });

// Each of these ends by itself, or the test waits until it times out.
describe('L12: no stream stands open beyond the key it was opened with', () => {
  test('when that is revoked, though another key opened the session and goes on in it', async () => {
    const at = await own();
    const [first, second] = [await createKeyFor(at, 'ada'), await createKeyFor(at, 'ada')];
    const { id } = await findSession(at, first.key);
    expect(await findSession(at, second.key)).toMatchObject({ id });
    const modern = await sendModern(at.mcp('ambit'), second.key, listen);
    expect(modern.status).toBe(200);
    const client = await connectHandshake(at.mcp('ambit'), first.key);
    const headers = { ...bearerHeader(second.key), accept: 'text/event-stream', 'mcp-session-id': client.transportId };
    const stream = await fetch(at.mcp('ambit'), { headers });
    expect(stream.status).toBe(200);
    await at.gateway.people.keys.revoke(second.id);
    await Promise.all([modern.rest(), stream.text()]);
    expect(await findSession(at, first.key)).toMatchObject({ id });
  });

  test('when it expires, and when it is rotated', async () => {
    // Before the gateway is opened, which keeps the clock it finds.
    const now = Date.now;
    const clock = vi.spyOn(Date, 'now').mockImplementation(now);
    onTestFinished(() => clock.mockRestore());
    const at = await own();
    const [brief, leaked] = [await createKeyFor(at, 'ada', { lifeSeconds: 300 }), await createKeyFor(at, 'ada')];
    const open = [];
    for (const { key } of [brief, leaked]) {
      const client = await connectHandshake(at.mcp('ambit'), key);
      open.push(await client.listen(), await sendModern(at.mcp('ambit'), key, listen));
    }
    expect(open.map(({ status }) => status)).toEqual([200, 200, 200, 200]);
    await at.gateway.people.keys.rotate(leaked.id);
    clock.mockImplementation(() => now() + 301_000);
    await Promise.all(open.map((each) => each.rest()));
  });

  test('and one of a key that is still taken stays', async () => {
    const at = await own();
    const [first, second] = [await createKeyFor(at, 'ada'), await createKeyFor(at, 'ada')];
    const staying = await sendModern(at.mcp('ambit'), first.key, listen);
    const going = await sendModern(at.mcp('ambit'), second.key, listen);
    let ended = false;
    const over = staying.rest().finally(() => {
      ended = true;
    });
    await at.gateway.people.keys.revoke(second.id);
    await going.rest();
    expect(ended).toBe(false);
    // Cut off with the gateway.
    const cut = over.catch(() => {});
    await at.close();
    await cut;
  });
});
