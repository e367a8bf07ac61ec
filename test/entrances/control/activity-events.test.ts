import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { activityEvent, gatewayEvent } from '../../../src/entrances/control/answer-schemas.ts';
import { handleControlRequest } from '../../../src/entrances/control/handle-request.ts';
import { localCaller } from '../../../src/entrances/control/route.ts';
import type { ActivityEventData, AnswerOf, RouteName } from '../../../src/entrances/control/routes.ts';
import { createSharedData, type ServedGateway } from '../../gateway/shared-data.ts';
import { createPairs, storeKinds } from '../../gateway/shared-stores.ts';
import {
  answerCorrectly,
  sendJson,
  startUpstream,
  type Upstream,
} from '../../journeys/hostile/upstreams/start-http-upstream.ts';
import { callModern } from '../../journeys/json-mcp-client.ts';
import { type EventReader, readEvents } from '../http/event-reader.ts';
import { checkAnswer } from './check-answer.ts';

const data = createSharedData();
const openPair = createPairs(data);
let upstream: Upstream;
/** Calls of `hold` under way, which end when told. */
const held: (() => void)[] = [];
const readers: EventReader[] = [];

beforeAll(async () => {
  upstream = await startUpstream({
    hold: ({ id }, response) => void held.push(() => sendJson(response, answerCorrectly(id, 'held'))),
  });
});
afterAll(() => upstream.stop());
afterEach(() => {
  for (const reader of readers.splice(0)) reader.close();
});

const config = () => ({
  servers: { it: { url: upstream.url } },
  rules: [{ id: 'no-shouting', deny: 'it__shout' }],
  quotas: { session: { callsPerMinute: 600, totalCalls: 1000 } },
});

async function ask<Name extends RouteName>({ gateway }: ServedGateway, name: Name, path: string) {
  const { status, body } = await handleControlRequest(gateway, { method: 'GET', path, body: undefined }, localCaller);
  expect(checkAnswer('GET', path, status, body)).toBe(name);
  return body as AnswerOf<Name>;
}

const listLive = (served: ServedGateway, query = 'include=activity,usage') =>
  ask(served, 'GET /api/v1/sessions', `/api/v1/sessions?${query}`);
const listEnded = (served: ServedGateway, query = '') =>
  ask(served, 'GET /api/v1/sessions/ended', `/api/v1/sessions/ended?${query}`);

async function watch(served: ServedGateway): Promise<EventReader> {
  const authorization = `Bearer ${readFileSync(join(data.dataDir, 'admin-token'), 'utf8').trim()}`;
  const reader = await readEvents(`${served.url}/api/v1/events?activity=true`, { authorization });
  readers.push(reader);
  return reader;
}

/** Resolves when the newest report about a session fits. */
function hearsActivity(reader: EventReader, id: string, fits: (one: ActivityEventData['sessions'][number]) => boolean) {
  return reader.hears(({ event, data: told }) => {
    if (event !== 'activity') return false;
    return (told as unknown as ActivityEventData).sessions.some((one) => one.id === id && fits(one));
  });
}

const call = (at: ServedGateway, token: string, tool: string) => callModern(at.mcp(), token, `it__${tool}`);

describe('what sessions do', () => {
  test('is reported while it changes, with each refusal, and the list has the same', async () => {
    const served = await data.serve(config());
    const { id, token } = await served.open({ name: 'busy', quotas: { totalCalls: 4, callsPerMinute: 60, burst: 5 } });
    await served.open({ name: 'idle', parentId: id });
    const reader = await watch(served);
    await call(served, token, 'say');
    const waiting = call(served, token, 'hold');
    const { data: first } = await hearsActivity(
      reader,
      id,
      ({ calls, current }) => calls === 1 && current?.tool === 'hold',
    );
    const [told] = (first as unknown as ActivityEventData).sessions;
    expect(told).toMatchObject({ id, errors: 0, underWay: 1, current: { server: 'it', tool: 'hold' } });
    expect(told?.recent).toHaveLength(30);
    held.pop()?.();
    await waiting;
    await call(served, token, 'shout');
    await call(served, token, 'say');
    // The quota is used up.
    await call(served, token, 'say');
    await hearsActivity(reader, id, ({ calls, errors, current }) => calls === 5 && errors === 2 && current === null);
    for (const { event, data: told } of reader.heard) {
      const schema = { activity: activityEvent, gateway: gatewayEvent }[event ?? ''];
      if (schema !== undefined) expect(schema.parse(told)).toEqual(told);
    }
    const loads = reader.heard.filter(({ event }) => event === 'gateway').map(({ data: load }) => load);
    expect(loads[0]).toMatchObject({ processes: 0, callsPerSecond: 0, sessions: 2 });
    expect(loads.some(({ callsPerSecond }) => Number(callsPerSecond) > 0)).toBe(true);

    const { sessions } = await listLive(served);
    const [busy, idle] = sessions;
    const limits = { callsPerMinute: 60, burst: 5, concurrentCalls: 64, totalCalls: 4, totalBytes: null };
    expect(busy).toMatchObject({ id, limits, children: 1, activity: { calls: 5, errors: 2, underWay: 0 } });
    expect(busy?.usage).toMatchObject({ calls: 4, underWay: 0 });
    expect([1, 2, 3, 4]).toContain(busy?.usage?.paceUsed);
    expect(idle).toMatchObject({ activity: null, children: 0, usage: { calls: 0 }, limits: { totalCalls: 4 } });
    const shown = await ask(served, 'GET /api/v1/sessions/{id}', `/api/v1/sessions/${id}`);
    expect(shown).toMatchObject({ limits, children: 1, activity: { calls: 5 }, usage: { calls: 4 } });
    const [plain] = (await listLive(served, '')).sessions;
    expect(Object.keys(plain ?? {})).not.toEqual(expect.arrayContaining(['activity']));

    await served.gateway.sessions.end(id);
    await reader.hears(({ event, data: ended }) => event === 'ended' && JSON.stringify(ended).includes(id));
    expect(served.gateway.running.activity.get(id)).toBeUndefined();
  });

  test('is read for some ids at once, and those of ended sessions are left out', async () => {
    const served = await data.serve(config());
    const [one, gone, other] = [await served.open(), await served.open(), await served.open({ userId: 'bob' })];
    await served.gateway.sessions.end(gone.id);
    const read = async (ids: readonly string[], more = '') =>
      (await listLive(served, `ids=${ids.join(',')}&include=usage${more}`)).sessions.map(({ id }) => id);
    expect(await read([other.id, gone.id, one.id, 'nobody', one.id])).toEqual([one.id, other.id]);
    expect(await read([one.id, other.id], '&user=bob')).toEqual([other.id]);
    const tooMany = { method: 'GET', path: `/api/v1/sessions?ids=${'a,'.repeat(100)}a`, body: undefined };
    expect(await handleControlRequest(served.gateway, tooMany, localCaller)).toMatchObject({ status: 400 });
  });

  test('is not told to readers that did not ask', async () => {
    const served = await data.serve(config());
    const path = '/api/v1/sessions?include=activity,secrets';
    const request = { method: 'GET', path, body: undefined };
    const { status, body } = await handleControlRequest(served.gateway, request, localCaller);
    expect([status, (body as { detail: string }).detail]).toEqual([400, expect.stringContaining('activity and usage')]);
    const authorization = `Bearer ${readFileSync(join(data.dataDir, 'admin-token'), 'utf8').trim()}`;
    const plain = await readEvents(`${served.url}/api/v1/events?activity=false`, { authorization });
    readers.push(plain);
    const reader = await watch(served);
    const { id, token } = await served.open();
    await call(served, token, 'say');
    await hearsActivity(reader, id, ({ calls }) => calls === 1);
    expect(plain.heard.map(({ event }) => event)).toEqual(['created']);
  });
});

describe.each(storeKinds)('ended sessions of two gateways on one %s store', (kind) => {
  test('are listed by each of them, once, and a live session may be named "ended"', async () => {
    const [here, there] = await openPair(kind, config(), `ended-${kind}`);
    const one = await here.open({ name: 'one', userId: 'ada' });
    const child = await here.open({ name: 'two', userId: 'ada', parentId: one.id });
    const named = await there.open({ name: 'ended' });
    await there.gateway.sessions.end(one.id);
    const listed = async () => (await listEnded(here, 'user=ada')).sessions.map(({ id }) => id).sort();
    await expect.poll(listed).toEqual([one.id, child.id].sort());
    const { sessions } = await listEnded(there, `id=${child.id.slice(0, 12)}`);
    expect(sessions).toMatchObject([{ id: child.id, name: 'two', parentId: one.id, reason: 'ended' }]);
    expect((await listEnded(there, 'user=bob')).sessions).toEqual([]);
    const shown = await ask(here, 'GET /api/v1/sessions/{id}', '/api/v1/sessions/%65nded');
    expect(shown.id).toBe(named.id);
  });
});
