import { hostname } from 'node:os';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type BlockRecipient, createDeliveries, type Deliveries } from '../../../src/context/for-models/deliveries.ts';
import type { Reply } from '../../../src/protocol/channel.ts';
import { openMemoryStore } from '../../../src/stores/memory/memory-store.ts';
import type { NewSession } from '../../../src/stores/record.ts';
import type { SessionStore } from '../../../src/stores/store.ts';

type Sent = Extract<Reply, { kind: 'message' }>;

const minute = 60_000;
let clock = 0;
let store: SessionStore;
let revision = 'one';
let failing = false;
/** Runs while a process finds out what to say, between its look at what was told and its claim. */
let beforeClaim: (() => Promise<unknown>) | undefined;
let warnings: string[];
const opened: Deliveries[] = [];
const edition = { now: {} };

beforeEach(async () => {
  clock = 1_000_000;
  revision = 'one';
  failing = false;
  beforeClaim = undefined;
  warnings = [];
  edition.now = {};
  store = openMemoryStore({ now: () => clock });
  const session: NewSession = {
    id: 's1',
    name: null,
    userId: 'ann',
    agentId: null,
    workspaceId: null,
    parentId: null,
    keyId: null,
    trustLevel: 'direct',
    servers: null,
    permissions: [],
    metadata: {},
    tokenDigests: [],
    ttlSeconds: 86_400,
    lifetimeSeconds: 86_400,
  };
  await store.create(session);
});
afterEach(async () => {
  for (const each of opened.splice(0)) await each.close();
  await store.close();
});

/** One process, as far as deliveries go. */
function process(): Deliveries {
  const deliveries = createDeliveries({
    store,
    state: {
      revision: () => edition.now,
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
      return { block: 'BLOCK', notice: 'NOTICE', revision };
    },
    signBlock: (text) => JSON.stringify({ type: 'text', text }),
    log: { warn: (event) => void warnings.push(event) },
    now: () => clock,
  });
  opened.push(deliveries);
  return deliveries;
}

const ann: BlockRecipient = { sessionId: 's1', userId: 'ann', workspaceId: undefined, transportId: undefined };
const client = (transportId: string): BlockRecipient => ({ ...ann, transportId });
const plain: Sent = {
  kind: 'message',
  bytes: Buffer.from('{"jsonrpc":"2.0","id":1,"result":{ "content" : [ ],"isError":false}}'),
};

const carry = async (by: Deliveries, to = ann, reply: Reply = plain) => (await by.prependIfDue(to, reply)) as Sent;
const textIn = ({ bytes }: Sent) =>
  (JSON.parse(bytes.toString()) as { result: { content: { text: string }[] } }).result.content[0]?.text;
/** Writing is not waited for by those who are told; a few turns later it is done. */
const written = () => new Promise((resolve) => setImmediate(resolve));

/** Says what it gave, and that it got there. */
async function told(by: Deliveries, to = ann): Promise<string | undefined> {
  const sent = await carry(by, to);
  sent.delivery?.delivered();
  return textIn(sent);
}

describe('what is due is told', () => {
  test('once, however many ask in however many processes', async () => {
    const [a, b, c] = [process(), process(), process()];
    const sent = await Promise.all(Array.from({ length: 60 }, (_, i) => carry([a, b, c][i % 3] as Deliveries)));
    const carrying = sent.filter((each) => textIn(each) === 'BLOCK');
    expect(carrying).toHaveLength(1);
    expect(carrying[0]?.bytes.toString()).toContain('"isError":false');
    carrying[0]?.delivery?.delivered();
    await Promise.all(opened.map((each) => each.close()));
    for (const each of [a, b, c, process()]) expect(await told(each)).toBeUndefined();
  });

  test('with the next, when the client did not get it', async () => {
    const here = process();
    const lost = await carry(here);
    expect(textIn(lost)).toBe('BLOCK');
    // As long as it is on its way, nobody else tells it.
    expect(await told(here)).toBeUndefined();
    expect(await told(process())).toBeUndefined();
    lost.delivery?.lost();
    lost.delivery?.delivered();
    expect(await told(here)).toBe('BLOCK');
    expect(await told(here)).toBeUndefined();
  });

  test('with the next in another process too', async () => {
    const here = process();
    (await carry(here)).delivery?.lost();
    await here.close();
    expect(await told(process())).toBe('BLOCK');
  });

  test('G8: once more, when a process died before it could say that it was told', async () => {
    const before = process();
    expect(textIn(await carry(before))).toBe('BLOCK');
    const after = process();
    expect(await told(after)).toBeUndefined();
    clock += 11_000;
    expect(await told(after)).toBe('BLOCK');
    expect(await told(after)).toBeUndefined();
    await after.close();
    clock += minute;
    expect(await told(process())).toBeUndefined();
  });

  test.each(['BLOCK', 'NOTICE'])(
    'G8: a %s is not told again by a process that looked before and claims after another told it',
    async (text) => {
      const [a, b] = [process(), process()];
      if (text === 'NOTICE') {
        expect(await told(a)).toBe('BLOCK');
        await written();
        expect(await told(b)).toBeUndefined();
        revision = 'two';
        edition.now = {};
      }
      let byB: string | undefined;
      beforeClaim = async () => {
        byB = await told(b);
        await written();
      };
      expect(await told(a)).toBeUndefined();
      expect(byB).toBe(text);
      for (const each of [a, b, process()]) expect(await told(each)).toBeUndefined();
    },
  );

  describe('a claim of a process that did not deliver', () => {
    const claimOf = (host: string, pid: number) => JSON.stringify({ host, pid, until: clock + 10_000 });
    const claimed = (value: string) => store.marks.put('s1', 'claim:session:block:0', value);
    /** No system gives ids this high, so no process has this one. */
    const deadPid = 2 ** 30;

    test('G8: on another machine holds until its time is over, and then another process delivers, once', async () => {
      await claimed(claimOf(`not-${hostname()}`, deadPid));
      const [a, b] = [process(), process()];
      clock += 9_999;
      for (const each of [a, b]) expect(await told(each)).toBeUndefined();
      clock += 1;
      expect(await told(a)).toBe('BLOCK');
      await written();
      expect(await told(b)).toBeUndefined();
    });

    test('G8: on this machine holds while the process runs, and not once it is dead', async () => {
      await claimed(claimOf(hostname(), globalThis.process.ppid));
      expect(await told(process())).toBeUndefined();
      await store.marks.delete('s1', 'claim:session:block:0');
      await claimed(claimOf(hostname(), deadPid));
      expect(await told(process())).toBe('BLOCK');
      await written();
      expect(await told(process())).toBeUndefined();
    });

    test('that cannot be read holds nothing', async () => {
      await claimed('not json');
      expect(await told(process())).toBe('BLOCK');
    });
  });

  test('a claim that has run out is taken over by one of those who want it', async () => {
    await carry(process());
    for (let round = 0; round < 3; round++) {
      clock += 11_000;
      const sent = await Promise.all(Array.from({ length: 10 }, () => carry(process())));
      expect(sent.filter((each) => textIn(each) === 'BLOCK')).toHaveLength(1);
    }
  });

  test('to each client of the handshake era by itself', async () => {
    const here = process();
    for (const id of ['a', 'b']) {
      expect(await told(here, client(id))).toBe('BLOCK');
      expect(await told(here, client(id))).toBeUndefined();
    }
    expect(await told(here)).toBe('BLOCK');
    await here.close();
    const after = process();
    expect(await told(after, client('a'))).toBeUndefined();
    await after.forget('s1', 'a');
    expect(await store.marks.get('s1', 'block:a')).toBeUndefined();
    expect(await store.marks.get('s1', 'block:b')).toBe('one');
  });

  test('not by a reply that has no place for it', async () => {
    const here = process();
    for (const body of ['"error":{"code":1,"message":"x"}', '"result":{}', '"result":{"content":"x"}', '"result":[]']) {
      const reply: Sent = { kind: 'message', bytes: Buffer.from(`{"jsonrpc":"2.0","id":1,${body}}`) };
      expect((await carry(here, ann, reply)).bytes).toBe(reply.bytes);
    }
    expect(await told(here)).toBe('BLOCK');
  });

  test('later, where it cannot be found out what it is', async () => {
    const here = process();
    failing = true;
    for (let i = 0; i < 3; i++) expect(await told(here)).toBeUndefined();
    expect(warnings).toEqual(['policies cannot be resolved']);
    failing = false;
    expect(await told(here)).toBe('BLOCK');
  });
});

describe('what has changed', () => {
  test('is noticed once, by one process, and again when it changes back', async () => {
    const [a, b] = [process(), process()];
    expect(await told(a)).toBe('BLOCK');
    for (const next of ['two', 'one', 'three']) {
      revision = next;
      edition.now = {};
      const sent = await Promise.all([carry(a), carry(b), carry(a), carry(b)]);
      const noticed = sent.filter((each) => textIn(each) === 'NOTICE');
      expect(noticed).toHaveLength(1);
      noticed[0]?.delivery?.delivered();
      await written();
      for (const each of [a, b]) expect(await told(each)).toBeUndefined();
    }
  });

  test('is nothing where the words are the same', async () => {
    const here = process();
    await told(here);
    edition.now = {};
    expect(await told(here)).toBeUndefined();
  });
});

describe('in the modern era', () => {
  test('half an hour of silence makes it due again, once', async () => {
    const [a, b] = [process(), process()];
    const call = async (by: Deliveries) => {
      await by.touch('s1', 1_000_000);
      const given = await told(by);
      await store.admit({ id: 's1' });
      return given;
    };
    expect(await call(a)).toBe('BLOCK');
    expect(await call(b)).toBeUndefined();
    clock += 29 * minute;
    expect(await call(a)).toBeUndefined();
    clock += 31 * minute;
    const given = await Promise.all([call(a), call(b)]);
    expect(given.filter((each) => each === 'BLOCK')).toHaveLength(1);
    expect(await call(a)).toBeUndefined();
    expect(await call(b)).toBeUndefined();
  });
});
