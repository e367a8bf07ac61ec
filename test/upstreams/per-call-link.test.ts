import { expect, test } from 'vitest';
import { ownCall } from '../../src/upstreams/bridge/ask-upstream.ts';
import type { Link } from '../../src/upstreams/link.ts';
import { createPerCallLink, mostAtOnce } from '../../src/upstreams/per-call-link.ts';
import { accepted } from '../../src/wire/channel.ts';

/** Processes that answer when they are told to. */
function processes() {
  const running: { finish(): void }[] = [];
  let closed = 0;
  const room = { taken: 0 };
  const make = () => {
    let busy = false;
    return {
      isBusy: () => busy,
      request: () => {
        busy = true;
        return new Promise((resolve) => {
          running.push({
            finish() {
              busy = false;
              resolve(accepted);
            },
          });
        });
      },
      close: async () => void closed++,
    } as unknown as Link;
  };
  const link = () =>
    createPerCallLink({ sessionId: 's', place: 's', server: 'it', era: 'modern', room, make, known: () => undefined });
  return { running, room, link, closed: () => closed };
}

test('a session has so many at the same time, over all its clients; the next one is refused, not queued', async () => {
  const { running, room, link, closed } = processes();
  const [one, other] = [link(), link()];
  const calls = Array.from({ length: mostAtOnce }, (_, i) =>
    (i % 2 ? one : other).request(ownCall('tools/call', '{}')),
  );
  await expect(one.request(ownCall('tools/call', '{}'))).rejects.toMatchObject({ code: 'OVERLOADED' });
  expect(running).toHaveLength(mostAtOnce);
  running[0]?.finish();
  await calls[0];
  expect(closed()).toBe(1);
  const next = one.request(ownCall('tools/call', '{}'));
  for (const each of running) each.finish();
  await Promise.all([...calls, next]);
  expect({ closed: closed(), taken: room.taken }).toEqual({ closed: mostAtOnce + 1, taken: 0 });
});

test('there is nothing to listen to that would outlive the call', async () => {
  const { link, running } = processes();
  await expect(link().request(ownCall('subscriptions/listen', '{}'))).rejects.toMatchObject({ rpc: -32601 });
  expect(running).toEqual([]);
});
