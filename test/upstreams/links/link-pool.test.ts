import { expect, test } from 'vitest';
import { acceptedReply } from '../../../src/protocol/channel.ts';
import { createOwnCall, type Link } from '../../../src/upstreams/links/link.ts';
import { createPerCallLink } from '../../../src/upstreams/links/link-pool.ts';

/** Processes that answer when they are told to. */
function processes() {
  const running: { finish(): void }[] = [];
  let closed = 0;
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
              resolve(acceptedReply);
            },
          });
        });
      },
      close: async () => void closed++,
    } as unknown as Link;
  };
  const link = () =>
    createPerCallLink({
      sessionId: 's',
      scopeKey: 's',
      server: 'it',
      era: 'modern',
      createLink: make,
      findKnownReply: () => undefined,
    });
  return { running, link, closed: () => closed };
}

test('each call has a process of its own, which is closed when it has answered', async () => {
  const { running, link, closed } = processes();
  const one = link();
  const calls = ['a', 'b'].map(() => one.request(createOwnCall('tools/call', '{}')));
  expect(running).toHaveLength(2);
  running[0]?.finish();
  await calls[0];
  expect([closed(), one.isBusy()]).toEqual([1, true]);
  running[1]?.finish();
  await calls[1];
  expect([closed(), one.isBusy()]).toEqual([2, false]);
});

test('there is nothing to listen to that would outlive the call', async () => {
  const { link, running } = processes();
  await expect(link().request(createOwnCall('subscriptions/listen', '{}'))).rejects.toMatchObject({ rpc: -32601 });
  expect(running).toEqual([]);
});
