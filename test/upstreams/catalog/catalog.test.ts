import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { AmbitError } from '../../../src/errors.ts';
import { type Catalog, type CatalogQuery, createCatalog } from '../../../src/upstreams/catalog/catalog.ts';
import type { CachedOffer, OfferFilter } from '../../../src/upstreams/catalog/catalog-file.ts';
import type { AskServer, Offer } from '../../../src/upstreams/catalog/offer.ts';
import type { ServerDefinition } from '../../../src/upstreams/definition.ts';
import { read } from '../links/relay/handles.ts';

function server(name: string, env: Record<string, string> = {}): ServerDefinition {
  const kind = { kind: 'stdio', scope: 'session', catalog: 'private', source: 'operator' } as const;
  return { ...kind, name, env, definitionHash: JSON.stringify(env) } as ServerDefinition;
}

const ada = { key: 'ada', userId: 'ada', workspaceId: 'w' };
const ofAda = { owners: new Set([ada.key]) };

function query(ask: AskServer, more: Partial<CatalogQuery> = {}): CatalogQuery {
  return { era: 'modern', capabilities: '{}', owner: ada, ask, ...more };
}

/** A server that counts how often its tools are asked for, and answers when it is told to. */
function asked(tools: () => string[] = () => ['t']) {
  let count = 0;
  let gate: Promise<void> = Promise.resolve();
  let fails = false;
  const ask: AskServer = async (method) => {
    if (method !== 'tools/list') return read('{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"none"}}');
    count++;
    const listed = tools().map((name) => `{"name":"${name}"}`);
    await gate;
    if (fails) return read('{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"out of order"}}');
    return read(`{"jsonrpc":"2.0","id":1,"result":{"tools":[${listed.join(',')}]}}`);
  };
  return {
    ask,
    get count() {
      return count;
    },
    fail: (now: boolean) => {
      fails = now;
    },
    /** Holds answers back; returns how to let them go. */
    hold() {
      let release = () => {};
      gate = new Promise((resolve) => {
        release = resolve;
      });
      return release;
    },
  };
}

let catalog: Catalog;
let saved: Map<string, CachedOffer>;

beforeEach(() => {
  vi.useFakeTimers();
  saved = new Map();
  const file = {
    load: () => new Map(),
    put: (key: string, kept: CachedOffer) => {
      saved.delete(key);
      saved.set(key, kept);
    },
    remove: (fits: OfferFilter) => {
      for (const [key, { owner }] of [...saved]) if (fits(key, owner)) saved.delete(key);
    },
  };
  catalog = createCatalog(file, async (_server, { tools }) => ({ tools, withheld: [] }));
});

afterEach(() => {
  vi.useRealTimers();
});

const namesIn = (listed: { offer: Offer | undefined }) => listed.offer?.tools;

test('concurrent queries ask the server once', async () => {
  const one = asked();
  const all = await Promise.all(Array.from({ length: 20 }, () => catalog.list(server('a'), query(one.ask))));
  expect(one.count).toBe(1);
  expect(new Set(all.map(({ offer }) => offer)).size).toBe(1);
  await catalog.list(server('a'), query(one.ask));
  expect(one.count).toBe(1);
  expect(saved.size).toBe(1);
});

test('another era, other capabilities or another definition cause a new request', async () => {
  const one = asked();
  await catalog.list(server('a'), query(one.ask));
  await catalog.list(server('a'), query(one.ask, { capabilities: '{"roots":{}}' }));
  await catalog.list(server('a', { KEY: 'v' }), query(one.ask));
  await catalog.list(server('b'), query(one.ask));
  await catalog.list(server('a'), query(one.ask, { era: 'handshake' }));
  expect(one.count).toBe(5);
});

describe('lists have owners [S2]', () => {
  const eve = { key: 'eve', userId: 'eve' };
  const alone = { key: 'alone', userId: 'ada', sessionId: 's9' };

  test('S2: another owner causes a new request and sees neither lists nor failures of the first', async () => {
    const one = asked(() => ['of-ada']);
    await catalog.list(server('a'), query(one.ask));
    const two = asked(() => ['of-eve']);
    expect(namesIn(await catalog.list(server('a'), query(two.ask, { owner: eve })))).toEqual(['{"name":"of-eve"}']);
    one.fail(true);
    catalog.markChanged('a', ofAda);
    catalog.forgetOwners(({ userId }) => userId === 'ada');
    expect((await catalog.list(server('a'), query(one.ask))).reason).toMatch(/the error -32603/);
    expect((await catalog.list(server('a'), query(two.ask, { owner: eve }))).reason).toBeUndefined();
  });

  test('lists of one session are never stored and are forgotten with the session', async () => {
    const one = asked();
    await catalog.list(server('a'), query(one.ask, { owner: alone }));
    expect(saved.size).toBe(0);
    await catalog.list(server('a'), query(one.ask));
    expect([...saved.values()].map(({ owner }) => owner)).toEqual([ada]);
    catalog.forgetSession('s9');
    await catalog.list(server('a'), query(one.ask, { owner: alone }));
    expect(one.count).toBe(3);
  });

  test('lists of an owner that is removed during the request are not kept', async () => {
    const one = asked();
    const release = one.hold();
    const first = catalog.list(server('a'), query(one.ask));
    await vi.advanceTimersByTimeAsync(1);
    catalog.forgetOwners(({ userId }) => userId === 'ada');
    release();
    await first;
    await catalog.list(server('a'), query(one.ask));
    expect(one.count).toBe(2);
  });

  test('lists of removed owners are removed from the file too', async () => {
    const one = asked();
    await catalog.list(server('a'), query(one.ask));
    await catalog.list(server('a'), query(one.ask, { owner: eve }));
    catalog.forgetOwners(({ workspaceId }) => workspaceId === 'w');
    expect([...saved.values()].map(({ owner }) => owner)).toEqual([eve]);
    catalog.invalidate('a');
    expect(saved.size).toBe(0);
  });

  test('lists that were made with a credential are never stored', async () => {
    const one = asked();
    await catalog.list(server('a'), query(one.ask, { owner: { ...eve, hasCredentials: true } }));
    await catalog.list(server('a'), query(one.ask));
    expect([...saved.values()].map(({ owner }) => owner)).toEqual([ada]);
  });

  test('a shared process changes the lists of its owners, and a session’s own process only that session’s', async () => {
    const heard: boolean[][] = [];
    catalog.onChange(({ concerns }) => void heard.push([concerns(ada, 's1'), concerns(eve, 's2')]));
    const one = asked();
    const two = asked();
    const lookAtBoth = async () => {
      await catalog.list(server('a'), query(one.ask));
      await catalog.list(server('a'), query(two.ask, { owner: eve }));
    };
    await lookAtBoth();
    catalog.markChanged('a', ofAda);
    catalog.markChanged('a', { scopeKey: 's1' });
    await lookAtBoth();
    expect([one.count, two.count]).toEqual([2, 1]);
    expect(heard).toEqual([
      [true, false],
      [true, false],
    ]);
  });

  test('with shared lists, only the session that asked sees the error text', async () => {
    const one = asked();
    one.fail(true);
    const all = { key: 'shared', userId: '' };
    const lookFrom = async (scopeKey: string) =>
      (await catalog.list(server('a'), query(one.ask, { owner: all, scopeKey }))).reason;
    const together = await Promise.all([lookFrom('s1'), lookFrom('s2')]);
    const reasons = [...together, await lookFrom('s1'), await lookFrom('s3')];
    expect(reasons.map((reason) => reason?.includes('-32603'))).toEqual([true, false, true, false]);
    expect(one.count).toBe(1);
  });

  test('a failure is forgotten with its owner', async () => {
    const one = asked();
    one.fail(true);
    await catalog.list(server('a'), query(one.ask, { owner: alone }));
    expect(catalog.owners()).toEqual([alone]);
    catalog.forgetSession('s9');
    expect(catalog.owners()).toEqual([]);
  });

  test('the number and the length of kept lists are limited', async () => {
    const long = asked(() => ['x'.repeat(1024 * 1024)]);
    for (let each = 0; each < 40; each++) {
      await catalog.list(server('a'), query(long.ask, { owner: { key: `${each}`, userId: 'u' } }));
    }
    const kept = catalog.owners().map(({ key }) => key);
    expect(kept.length).toBeLessThan(33);
    expect(kept.at(-1)).toBe('39');
  });
});

test('an old list is returned at once and refreshed in the background', async () => {
  let tools = ['old'];
  const one = asked(() => tools);
  await catalog.list(server('a'), query(one.ask));
  tools = ['new'];
  vi.advanceTimersByTime(6 * 60_000);
  expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"old"}']);
  await vi.advanceTimersByTimeAsync(1);
  expect(one.count).toBe(2);
  expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"new"}']);
});

describe('after list_changed', () => {
  test('the next query waits for the new list', async () => {
    let tools = ['old'];
    const one = asked(() => tools);
    await catalog.list(server('a'), query(one.ask));
    tools = ['new'];
    catalog.markChanged('a', ofAda);
    expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"new"}']);
  });

  test('an answer to an earlier request does not count as the new list', async () => {
    let tools = ['old'];
    const one = asked(() => tools);
    const release = one.hold();
    const first = catalog.list(server('a'), query(one.ask));
    tools = ['new'];
    catalog.markChanged('a', ofAda);
    release();
    await first;
    expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"new"}']);
  });

  test('a server whose name begins alike is not affected', async () => {
    const one = asked();
    await catalog.list(server('a-b'), query(one.ask));
    catalog.markChanged('a', ofAda);
    await catalog.list(server('a-b'), query(one.ask));
    expect(one.count).toBe(1);
  });
});

describe('a server that fails', () => {
  test('is listed with its reason and not asked again for a while', async () => {
    const one = asked();
    one.fail(true);
    const listed = await catalog.list(server('a'), query(one.ask));
    expect(listed.offer).toBeUndefined();
    expect(listed.reason).toMatch(/^UPSTREAM_FAILED: tools\/list was answered with the error -32603\.$/);
    expect((await catalog.list(server('a'), query(one.ask))).reason).toBe(listed.reason);
    expect(one.count).toBe(1);
    one.fail(false);
    vi.advanceTimersByTime(16_000);
    expect(await catalog.list(server('a'), query(one.ask))).toMatchObject({ reason: undefined, offer: {} });
  });

  test('is listed with its last offer after it has worked before', async () => {
    const one = asked();
    await catalog.list(server('a'), query(one.ask));
    one.fail(true);
    catalog.markChanged('a', ofAda);
    const listed = await catalog.list(server('a'), query(one.ask));
    expect([namesIn(listed), listed.reason]).toEqual([['{"name":"t"}'], undefined]);
  });

  test('is asked at once after a new definition, and nothing old is kept', async () => {
    const one = asked();
    one.fail(true);
    await catalog.list(server('a'), query(one.ask));
    one.fail(false);
    catalog.invalidate('a');
    expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"t"}']);
    catalog.invalidate('a');
    await catalog.list(server('b'), query(one.ask));
    expect([...saved.keys()].map((key) => key.split(' ')[0])).toEqual(['b']);
  });
});

test('a login link for one user is never shown to another', async () => {
  const wantedOf = (user: string): AskServer => {
    return async () => {
      await Promise.resolve();
      throw new AmbitError('LOGIN_REQUIRED', { what: `of ${user}`, link: `https://a.example/${user}` });
    };
  };
  const look = (user: string) => catalog.list(server('a'), query(wantedOf(user)));
  const told = [...(await Promise.all(['ada', 'eve', 'tom'].map(look))), await look('ann')];
  expect(told.map(({ failure }) => (failure as AmbitError).link)).toEqual(
    ['ada', 'eve', 'tom', 'ann'].map((user) => `https://a.example/${user}`),
  );
});

test('a slow server is left out after the deadline and announced when it has answered', async () => {
  const told: [string, boolean][] = [];
  const eve = { key: 'eve', userId: 'eve' };
  const stop = catalog.onChange(({ server: name, isOwnNotice: byOurselves, concerns }) => {
    told.push([name, byOurselves]);
    expect([concerns(ada, 's1'), concerns(eve, 's2')]).toEqual([true, false]);
  });
  const one = asked();
  const release = one.hold();
  const pending = catalog.list(server('a'), query(one.ask));
  await vi.advanceTimersByTimeAsync(5001);
  expect((await pending).reason).toMatch(/^UPSTREAM_TIMEOUT/);
  expect(told).toEqual([]);
  release();
  await vi.advanceTimersByTimeAsync(1);
  expect(told).toEqual([['a', true]]);
  expect(namesIn(await catalog.list(server('a'), query(one.ask)))).toEqual(['{"name":"t"}']);
  expect(one.count).toBe(1);
  stop();
  catalog.markChanged('a', ofAda);
  expect(told).toHaveLength(1);
});

test('L5: lists of a session that ended during the request are not kept', async () => {
  const one = asked();
  catalog.markChanged('a', { scopeKey: 's1' });
  const release = one.hold();
  const pending = catalog.list(server('a'), query(one.ask, { scopeKey: 's1' }));
  await vi.advanceTimersByTimeAsync(1);
  catalog.forgetSession('s1');
  release();
  await pending;
  catalog.markChanged('a', { scopeKey: 's1' });
  one.fail(true);
  // Where nothing better can be had, what was kept would be told.
  expect((await catalog.list(server('a'), query(one.ask, { scopeKey: 's1' }))).offer).toBeUndefined();
});
