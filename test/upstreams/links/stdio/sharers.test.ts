import { expect, test } from 'vitest';
import type { Channel } from '../../../../src/protocol/channel.ts';
import type { Session } from '../../../../src/sessions/session.ts';
import { createOwnCall } from '../../../../src/upstreams/links/link.ts';
import type { LinkUsers } from '../../../../src/upstreams/links/link-pool.ts';
import { createPendingCalls, type PendingCall } from '../../../../src/upstreams/links/relay/pending-calls.ts';
import { createSharers } from '../../../../src/upstreams/links/stdio/sharers.ts';

function sharing(...users: string[]) {
  const tenancy: LinkUsers = {
    isShared: true,
    key: 'k',
    trustLevel: 'direct',
    workspaceId: undefined,
    sessions: new Map(users.map((id) => [id, { id } as Session])),
    latest: { id: 'a' } as Session,
  };
  const pending = createPendingCalls();
  const sharers = createSharers(tenancy, 8);
  const admit = (id: string) =>
    sharers.assertAdmitted(
      { ...createOwnCall('ping', '{}'), acting: { session: { id } as Session, correlationId: 'c' } },
      pending,
    );
  const wait = (sessionId: string) =>
    pending.add({
      upstreamId: pending.nextId(),
      channel: { onGone() {} } as unknown as Channel,
      binding: { sessionId },
    } as unknown as PendingCall);
  return { tenancy, sharers, pending, admit, wait };
}

test('nobody is meant before anybody was served, one while it is alone, nobody ever after until it starts over', () => {
  const { sharers, admit, tenancy, pending } = sharing('a', 'b');
  expect(sharers.soleSessionId()).toBeNull();
  sharers.assertAdmitted(createOwnCall('ping', '{}'), pending);
  expect(sharers.soleSessionId()).toBeNull();
  admit('a');
  admit('a');
  expect(sharers.soleSessionId()).toBe('a');
  admit('b');
  expect(sharers.soleSessionId()).toBeNull();
  tenancy.sessions.delete('b');
  admit('a');
  expect(sharers.soleSessionId()).toBeNull();
  sharers.startOver();
  admit('a');
  expect(sharers.soleSessionId()).toBe('a');
});

test('who has left is not served, and does not count as served', () => {
  const { sharers, admit } = sharing('a');
  expect(() => admit('b')).toThrow('may no longer use this server');
  admit('a');
  expect(sharers.soleSessionId()).toBe('a');
});

test('one session takes a quarter of the room, and leaves the rest to the others', () => {
  const { admit, wait } = sharing('a', 'b');
  for (let i = 0; i < 2; i++) wait(admit('a'));
  expect(() => admit('a')).toThrow('Too many requests are in progress');
  expect(admit('b')).toBe('b');
});

test('a channel that is full is passed over until it has room', () => {
  const { sharers } = sharing('a');
  let drained = () => {};
  const full = {
    onDrain(listener: () => void) {
      drained = listener;
    },
    onGone() {},
  } as unknown as Channel;
  sharers.skipChannel(full);
  expect(sharers.fullChannels.has(full)).toBe(true);
  drained();
  expect(sharers.fullChannels.has(full)).toBe(false);
});
