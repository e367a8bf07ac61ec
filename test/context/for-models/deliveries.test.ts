import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BlockRecipient, createDeliveries, type Deliveries } from '../../../src/context/for-models/deliveries.ts';
import { maxClients } from '../../../src/context/for-models/delivery-marks.ts';
import type { FinalReply } from '../../../src/protocol/channel.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { NewSession } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';

type Sent = Extract<FinalReply, { kind: 'message' }>;

const minute = 60_000;
let clock = 0;
let store: SessionStore;
let revision = 'one';
let failing = false;
/** Runs while a process finds out what to say, between its look at what was told and its claim. */
let beforeClaim: (() => Promise<unknown>) | undefined;
let warnings: string[];
const opened: Deliveries[] = [];
const revised = { now: {} };

const session: NewSession = {
  id: 's1',
  name: null,
  userId: 'ann',
  agentId: null,
  workspaceId: null,
  parentId: null,
  keyId: null,
  task: null,
  quotas: null,
  trustLevel: 'direct',
  servers: null,
  permissions: [],
  metadata: {},
  origin: null,
  tokenDigests: [],
  ttlSeconds: 86_400,
  lifetimeSeconds: 86_400,
};

beforeEach(async () => {
  clock = 1_000_000;
  revision = 'one';
  failing = false;
  beforeClaim = undefined;
  warnings = [];
  revised.now = {};
  store = openMemoryStore({ now: () => clock });
  await store.create(session);
});
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
  await store.close();
});

/** One process, as far as deliveries go. */
function startOne(): Deliveries {
  const deliveries = createDeliveries({
    store,
    state: {
      revision: () => revised.now,
      isActive: () => true,
      refresh: async () => true,
      invalidate() {},
      close() {},
    },
    async renderFor() {
      if (failing) throw new Error('away');
      const interrupt = beforeClaim;
      beforeClaim = undefined;
      await interrupt?.();
      return { render: (isChange) => (isChange ? 'NOTICE' : 'BLOCK'), revision };
    },
    signBlock: (text) => JSON.stringify({ type: 'text', text }),
    log: { warn: (event) => void warnings.push(event) },
    now: () => clock,
  });
  opened.push(deliveries);
  return deliveries;
}

const ann: BlockRecipient = {
  sessionId: 's1',
  userId: 'ann',
  workspaceId: undefined,
  transportId: undefined,
  clientId: () => 'ann',
  hasContextTool: () => true,
};
const client = (transportId: string): BlockRecipient => ({ ...ann, transportId });
const modern = (id: string): BlockRecipient => ({ ...ann, clientId: () => id });
const plain: Sent = {
  kind: 'message',
  bytes: Buffer.from('{"jsonrpc":"2.0","id":1,"result":{ "content" : [ ],"isError":false}}'),
};

const deliver = async (by: Deliveries, to = ann, reply: FinalReply = plain) =>
  (await by.prependIfDue(to, reply)) as Sent;
const textIn = ({ bytes }: Sent) =>
  (JSON.parse(bytes.toString()) as { result: { content: { text: string }[] } }).result.content[0]?.text;
/** Writing is not waited for by those who are told; a few turns later it is done. */
const waitForWrites = () => new Promise((resolve) => setImmediate(resolve));

/** Says what it gave, and that it got there. */
async function deliverText(by: Deliveries, to = ann): Promise<string | undefined> {
  const sent = await deliver(by, to);
  sent.delivery?.delivered();
  return textIn(sent);
}

describe('a block that is due is delivered', () => {
  test('once, however many ask in however many processes', async () => {
    const [a, b, c] = [startOne(), startOne(), startOne()];
    const sent = await Promise.all(Array.from({ length: 60 }, (_, i) => deliver([a, b, c][i % 3] as Deliveries)));
    const carrying = sent.filter((each) => textIn(each) === 'BLOCK');
    expect(carrying).toHaveLength(1);
    expect(carrying[0]?.bytes.toString()).toContain('"isError":false');
    carrying[0]?.delivery?.delivered();
    await Promise.all(opened.map((each) => each.close()));
    for (const each of [a, b, c, startOne()]) expect(await deliverText(each)).toBeUndefined();
  });

  test('with the next, when the client did not get it', async () => {
    const here = startOne();
    const lost = await deliver(here);
    expect(textIn(lost)).toBe('BLOCK');
    // As long as it is on its way, nobody else tells it.
    expect(await deliverText(here)).toBeUndefined();
    expect(await deliverText(startOne())).toBeUndefined();
    lost.delivery?.lost();
    lost.delivery?.delivered();
    expect(await deliverText(here)).toBe('BLOCK');
    expect(await deliverText(here)).toBeUndefined();
  });

  test('with the next in another process too', async () => {
    const here = startOne();
    (await deliver(here)).delivery?.lost();
    await here.close();
    expect(await deliverText(startOne())).toBe('BLOCK');
  });

  test('G8: once more, when a process died before it recorded the delivery', async () => {
    const before = startOne();
    expect(textIn(await deliver(before))).toBe('BLOCK');
    const after = startOne();
    expect(await deliverText(after)).toBeUndefined();
    clock += 11_000;
    expect(await deliverText(after)).toBe('BLOCK');
    expect(await deliverText(after)).toBeUndefined();
    await after.close();
    clock += minute;
    expect(await deliverText(startOne())).toBeUndefined();
  });

  test.each(['BLOCK', 'NOTICE'])(
    'G8: a %s is not told again by a process that looked before and claims after another told it',
    async (text) => {
      const [a, b] = [startOne(), startOne()];
      if (text === 'NOTICE') {
        expect(await deliverText(a)).toBe('BLOCK');
        await waitForWrites();
        expect(await deliverText(b)).toBeUndefined();
        revision = 'two';
        revised.now = {};
      }
      let byB: string | undefined;
      beforeClaim = async () => {
        byB = await deliverText(b);
        await waitForWrites();
      };
      expect(await deliverText(a)).toBeUndefined();
      expect(byB).toBe(text);
      for (const each of [a, b, startOne()]) expect(await deliverText(each)).toBeUndefined();
    },
  );

  describe('a claim of a process that did not deliver', () => {
    const claimOf = (host: string, pid: number) => JSON.stringify({ host, pid, until: clock + 10_000 });
    const claimed = (value: string) => store.marks.put('s1', 'claim:t::block:0', value);
    /** No system gives ids this high, so no process has this one. */
    const deadPid = 2 ** 30;

    const to = client('t');

    test('G8: on another machine holds until its time is over, and then another process delivers, once', async () => {
      await claimed(claimOf(`not-${hostname()}`, deadPid));
      const [a, b] = [startOne(), startOne()];
      clock += 9_999;
      for (const each of [a, b]) expect(await deliverText(each, to)).toBeUndefined();
      clock += 1;
      expect(await deliverText(a, to)).toBe('BLOCK');
      await waitForWrites();
      expect(await deliverText(b, to)).toBeUndefined();
    });

    test('G8: on this machine holds while the process runs, and not once it is dead', async () => {
      await claimed(claimOf(hostname(), globalThis.process.ppid));
      expect(await deliverText(startOne(), to)).toBeUndefined();
      await store.marks.delete('s1', 'claim:t::block:0');
      await claimed(claimOf(hostname(), deadPid));
      expect(await deliverText(startOne(), to)).toBe('BLOCK');
      await waitForWrites();
      expect(await deliverText(startOne(), to)).toBeUndefined();
    });

    test('that cannot be read holds nothing', async () => {
      await claimed('not json');
      expect(await deliverText(startOne(), to)).toBe('BLOCK');
    });
  });

  test('a claim that has run out is taken over by one of those who want it', async () => {
    await deliver(startOne());
    for (let round = 0; round < 3; round++) {
      clock += 11_000;
      const sent = await Promise.all(Array.from({ length: 10 }, () => deliver(startOne())));
      expect(sent.filter((each) => textIn(each) === 'BLOCK')).toHaveLength(1);
    }
  });

  test('to each client of the handshake era by itself', async () => {
    const here = startOne();
    for (const id of ['a', 'b']) {
      expect(await deliverText(here, client(id))).toBe('BLOCK');
      expect(await deliverText(here, client(id))).toBeUndefined();
    }
    expect(await deliverText(here)).toBe('BLOCK');
    await here.close();
    const after = startOne();
    expect(await deliverText(after, client('a'))).toBeUndefined();
    await after.forget('s1', 'a');
    expect(await store.marks.get('s1', 'block:a')).toBeUndefined();
    expect(await store.marks.get('s1', 'block:b')).toBe(' one');
  });

  test('not by a reply that has no content', async () => {
    const here = startOne();
    for (const body of ['"error":{"code":1,"message":"x"}', '"result":{}', '"result":{"content":"x"}', '"result":[]']) {
      const reply: Sent = { kind: 'message', bytes: Buffer.from(`{"jsonrpc":"2.0","id":1,${body}}`) };
      expect((await deliver(here, ann, reply)).bytes).toBe(reply.bytes);
    }
    expect(await deliverText(here)).toBe('BLOCK');
  });

  test('later, where it cannot be found out what it is', async () => {
    const here = startOne();
    failing = true;
    for (let i = 0; i < 3; i++) expect(await deliverText(here)).toBeUndefined();
    expect(warnings).toEqual(['policies cannot be resolved']);
    failing = false;
    expect(await deliverText(here)).toBe('BLOCK');
  });
});

describe('what has changed', () => {
  test('is noticed once, by one process, and again when it changes back', async () => {
    const [a, b] = [startOne(), startOne()];
    expect(await deliverText(a)).toBe('BLOCK');
    for (const next of ['two', 'one', 'three']) {
      revision = next;
      revised.now = {};
      const sent = await Promise.all([deliver(a), deliver(b), deliver(a), deliver(b)]);
      const noticed = sent.filter((each) => textIn(each) === 'NOTICE');
      expect(noticed).toHaveLength(1);
      noticed[0]?.delivery?.delivered();
      await waitForWrites();
      for (const each of [a, b]) expect(await deliverText(each)).toBeUndefined();
    }
  });

  test('is not sent when the texts are the same', async () => {
    const here = startOne();
    await deliverText(here);
    revised.now = {};
    expect(await deliverText(here)).toBeUndefined();
  });
});

describe('in the modern era', () => {
  test('G1: each client of a session gets it once, however many call at once in however many processes', async () => {
    const processes = [startOne(), startOne(), startOne()];
    const sent = await Promise.all(
      Array.from({ length: 60 }, (_, i) => deliver(processes[i % 3] as Deliveries, modern(i % 2 ? 'a' : 'b'))),
    );
    expect(sent.filter((each) => textIn(each) === 'BLOCK')).toHaveLength(2);
    for (const each of sent) each.delivery?.delivered();
    await waitForWrites();
    // A restart is no reason to say it again.
    for (const each of [...processes, startOne()])
      for (const id of ['a', 'b']) expect(await deliverText(each, modern(id))).toBeUndefined();
  });

  test('G1: a client that connects again gets it again, once, from every process', async () => {
    const [a, b] = [startOne(), startOne()];
    for (const id of ['x', 'y']) expect(await deliverText(a, modern(id))).toBe('BLOCK');
    await waitForWrites();
    expect(await deliverText(b, modern('x'))).toBeUndefined();
    await b.reconnect(modern('x'));
    expect(await deliverText(a, modern('x'))).toBe('BLOCK');
    await waitForWrites();
    for (const each of [a, b, startOne()])
      for (const id of ['x', 'y']) expect(await deliverText(each, modern(id))).toBeUndefined();
    // Whoever was never there has nothing that could come again.
    await b.reconnect(modern('z'));
    expect(await deliverText(a, modern('y'))).toBeUndefined();
    revision = 'two';
    revised.now = {};
    expect(await deliverText(a, modern('x'))).toBe('NOTICE');
  });

  test.each(['delivered', 'lost'] as const)(
    'G1: a block that is on its way when its client connects again, and is %s then, does not use up the next',
    async (outcome) => {
      const [a, b] = [startOne(), startOne()];
      const before = await deliver(a);
      expect(textIn(before)).toBe('BLOCK');
      await b.reconnect(ann);
      const after = await deliver(a);
      expect(textIn(after)).toBe('BLOCK');
      before.delivery?.[outcome]();
      after.delivery?.delivered();
      await waitForWrites();
      for (const each of [a, b, startOne()]) expect(await deliverText(each)).toBeUndefined();
    },
  );

  test('S7: a client with another name for each call fills neither the store nor the places of other sessions', async () => {
    const keys = new Set<string>();
    const { put, delete: remove } = store.marks;
    Object.assign(store.marks, {
      put(id: string, key: string, value: string) {
        keys.add(key);
        return put(id, key, value);
      },
      delete(id: string, key: string) {
        keys.delete(key);
        return remove(id, key);
      },
    });
    await store.create({ ...session, id: 's2' });
    const here = startOne();
    const other = { ...ann, sessionId: 's2' };
    expect(await deliverText(here, other)).toBe('BLOCK');
    for (let i = 0; i < 300; i++) {
      clock++;
      expect(await deliverText(here, modern(`name-${i}`))).toBe('BLOCK');
      await waitForWrites();
    }
    expect(await deliverText(here, other)).toBeUndefined();
    // One more for the notes about the last deliveries.
    expect(keys.size).toBeLessThanOrEqual(2 * maxClients + 1);
    // The clients that came last are still known, also after a restart.
    for (const each of [here, startOne()]) expect(await deliverText(each, modern('name-299'))).toBeUndefined();
    expect(await deliverText(here, modern('name-0'))).toBe('BLOCK');
  });

  test('half an hour of silence makes it due again for each client, once', async () => {
    const [a, b] = [startOne(), startOne()];
    const call = async (by: Deliveries, to = ann) => {
      await by.touch('s1', 1_000_000);
      const given = await deliverText(by, to);
      await store.admit({ id: 's1' });
      return given;
    };
    expect(await call(a)).toBe('BLOCK');
    expect(await call(a, modern('bob'))).toBe('BLOCK');
    expect(await call(b)).toBeUndefined();
    clock += 29 * minute;
    expect(await call(a)).toBeUndefined();
    clock += 31 * minute;
    const given = await Promise.all([call(a), call(b)]);
    expect(given.filter((each) => each === 'BLOCK')).toHaveLength(1);
    expect(await call(a)).toBeUndefined();
    expect(await call(b)).toBeUndefined();
    expect(await call(b, modern('bob'))).toBe('BLOCK');
    expect(await call(a, modern('bob'))).toBeUndefined();
  });
});
