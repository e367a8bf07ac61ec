import { expect, test } from 'vitest';
import { allServers, type Exchange, emptyJournalDraft } from '../../src/gateway/exchange.ts';
import { type ActivityTracker, createActivityTracker } from '../../src/gateway/session-activity.ts';
import { readMessage } from '../../src/protocol/message.ts';

/** A call as the stage `admit` sees it. */
function createCall(name: string, server = 'notes'): Exchange {
  const params = { name, arguments: {} };
  const message = readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })));
  return { server, message, entry: emptyJournalDraft() } as Exchange;
}

function createTracker(maxSessions = 100) {
  let time = Date.parse('2026-11-18T09:00:05.000Z');
  return {
    tracker: createActivityTracker({ maxSessions, now: () => time }),
    advance: (ms: number) => {
      time += ms;
    },
  };
}

/** Makes a call that ends at once, as the stages `admit` and `record` see it. */
function makeCall(tracker: ActivityTracker, id: string, isError = false): void {
  const call = createCall('add');
  tracker.end(tracker.begin(id, call));
  tracker.count(call.entry, isError, false);
}

const zeros = (count: number) => Array(count).fill(0);

test('calls are counted in slots of 10 s that age, also while the session is silent', () => {
  const { tracker, advance } = createTracker();
  expect(tracker.get('a')).toBeUndefined();
  for (const isError of [false, true, false]) makeCall(tracker, 'a', isError);
  advance(10_000);
  makeCall(tracker, 'a');
  expect(tracker.get('a')).toEqual({
    calls: 4,
    errors: 1,
    underWay: 0,
    current: null,
    lastCallAt: '2026-11-18T09:00:15.000Z',
    recent: [...zeros(28), 3, 1],
    recentUntil: '2026-11-18T09:00:20.000Z',
  });
  advance(280_000);
  expect(tracker.get('a')?.recent).toEqual([3, 1, ...zeros(28)]);
  advance(10_000);
  makeCall(tracker, 'a');
  expect(tracker.get('a')).toMatchObject({ calls: 5, recent: [1, ...zeros(28), 1] });
  advance(24 * 3_600_000);
  makeCall(tracker, 'a');
  expect(tracker.get('a')?.recent).toEqual([...zeros(29), 1]);
});

test('the current call is the one under way that started last, and its name is short', () => {
  const { tracker, advance } = createTracker();
  const currentTool = () => tracker.get('a')?.current?.tool;
  const calls = ['one', 'two', `${'x'.repeat(199)}🌱`].map((name) => {
    advance(1000);
    return tracker.begin('a', createCall(name));
  });
  expect(tracker.get('a')).toMatchObject({ underWay: 3, current: { since: '2026-11-18T09:00:08.000Z' } });
  expect(currentTool()).toBe('x'.repeat(199));
  const [one, two, three] = calls as [(typeof calls)[0], (typeof calls)[0], (typeof calls)[0]];
  tracker.end(two);
  tracker.end(three);
  expect(currentTool()).toBe('one');
  tracker.end(one);
  expect(tracker.get('a')).toMatchObject({ underWay: 0, current: null, calls: 0 });
});

test('a session that has ended is tracked again neither by a call that ends nor by a refusal', () => {
  const { tracker } = createTracker();
  const ending = createCall('session_end');
  const call = tracker.begin('a', ending);
  tracker.forget('a');
  tracker.end(call);
  tracker.count(ending.entry, false, false);
  tracker.count({ ...emptyJournalDraft(), sessionId: 'a' }, true, false);
  expect(tracker.get('a')).toBeUndefined();
  tracker.count({ ...emptyJournalDraft(), sessionId: 'b' }, true, true);
  expect(tracker.get('b')).toMatchObject({ calls: 1, errors: 1 });
  expect(tracker.totalCalls()).toBe(3);
});

test('a bounded number of sessions is tracked: the idle ones that called least recently go', () => {
  const { tracker, advance } = createTracker(20);
  const busy = tracker.begin('busy', createCall('add'));
  for (let index = 0; index < 50; index++) {
    advance(1);
    tracker.end(tracker.begin(`s${index}`, createCall('add')));
  }
  const tracked = Array.from({ length: 50 }, (_, index) => tracker.get(`s${index}`) !== undefined);
  expect(tracked.filter(Boolean).length).toBeLessThanOrEqual(20);
  expect(tracked.lastIndexOf(false)).toBeLessThan(tracked.indexOf(true));
  expect(tracker.get('busy')).toMatchObject({ underWay: 1 });
  tracker.end(busy);
});

test('a reader gets each changed session once, those first that changed first, in bounded reports', () => {
  const { tracker } = createTracker();
  const start = tracker.lastChange();
  for (const id of ['a', 'b', 'c', 'a']) makeCall(tracker, id);
  const first = tracker.changedSince(start, 2);
  expect(first.sessions.map(({ id, calls }) => [id, calls])).toEqual([
    ['b', 1],
    ['c', 1],
  ]);
  const second = tracker.changedSince(first.change, 2);
  expect(second.sessions.map(({ id, calls }) => [id, calls])).toEqual([['a', 2]]);
  expect(tracker.changedSince(second.change, 2).sessions).toEqual([]);
});

test('a call whose server is not found yet is reported until it is', () => {
  const { tracker } = createTracker();
  const exchange = createCall('notes__add', allServers);
  tracker.begin('a', exchange);
  const first = tracker.changedSince(0, 10);
  expect(first.sessions[0]?.current).toMatchObject({ server: '*', tool: 'notes__add' });
  Object.assign(exchange.entry, { upstream: 'notes', upstreamName: 'add' });
  const second = tracker.changedSince(first.change, 10);
  expect(second.sessions[0]?.current).toMatchObject({ server: 'notes', tool: 'add' });
  expect(tracker.changedSince(tracker.lastChange(), 10).sessions).toEqual([]);
});
