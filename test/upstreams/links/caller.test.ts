import { expect, test } from 'vitest';
import type { Channel } from '../../../src/protocol/channel.ts';
import { type Caller, createCallers } from '../../../src/upstreams/links/caller.ts';
import type { Link } from '../../../src/upstreams/links/link.ts';
import { request } from './relay/handles.ts';

const initialize = request('initialize', '{}');

function link(): Link & { readonly detached: Caller[] } {
  const detached: Caller[] = [];
  return { detached, attach() {}, detach: (caller: Caller) => void detached.push(caller) } as unknown as Link & {
    detached: Caller[];
  };
}

function open(callers: ReturnType<typeof createCallers>, server: string, to: Link, parent?: Caller): Caller {
  const common = { sessionId: 's', server, version: '2025-11-25', link: to, initialize };
  return callers.open(parent === undefined ? common : { ...common, parent });
}

function stream(): Channel & { closed: boolean } {
  const channel = { owner: {}, isGone: () => false, closed: false, emit: () => true, onDrain() {}, onGone() {} };
  return Object.assign(channel, {
    close() {
      channel.closed = true;
    },
  });
}

test('one that stands behind another speaks on its stream, and leaves it open when it ends', () => {
  const callers = createCallers();
  const parent = open(callers, '*', link());
  const child = open(callers, 'a', link(), parent);
  const channel = stream();
  parent.stream = channel;
  expect(child.stream).toBe(channel);
  expect(child.pushes).toBe(parent.pushes);
  callers.end(child);
  expect(channel.closed).toBe(false);
  callers.end(parent);
  expect(channel.closed).toBe(true);
});

test('one that is replaced is known no longer, but its link is not told that it left', () => {
  const callers = createCallers();
  const old = link();
  const caller = open(callers, 'a', old);
  callers.forget(caller);
  expect(callers.get(caller.id)).toBeUndefined();
  expect(old.detached).toEqual([]);
});

test('its end is told once, whether the client left or its session ended; that it was replaced is not', () => {
  const callers = createCallers();
  const told: string[] = [];
  const openAs = (name: string) => {
    const caller = open(callers, name, link());
    caller.endListeners.add(() => told.push(name));
    return caller;
  };
  const [left, replaced, ended] = [openAs('left'), openAs('replaced'), openAs('ended')];
  callers.end(left);
  callers.end(left);
  callers.forget(replaced);
  callers.endSession('s');
  expect(told).toEqual(['left', 'ended']);
  expect([left, replaced, ended].map(({ isEnded }) => isEnded)).toEqual([true, false, true]);
});

test('the 65th client makes the idlest one leave; those that stand behind others do not count', () => {
  const callers = createCallers();
  const all = Array.from({ length: 64 }, () => open(callers, '*', link()));
  const children = all.map((parent) => open(callers, 'a', link(), parent));
  expect(callers.size).toBe(128);
  all.forEach((caller, at) => {
    caller.lastActiveAt = at === 7 ? 1 : 2;
  });
  open(callers, '*', link());
  expect(all.filter((caller) => callers.get(caller.id) === undefined)).toEqual([all[7]]);
  expect(children.every((child) => callers.get(child.id) !== undefined)).toBe(true);
});
