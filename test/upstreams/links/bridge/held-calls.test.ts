import { describe, expect, test } from 'vitest';
import type { Channel, FinalReply } from '../../../../src/protocol/channel.ts';
import { createHeldCalls } from '../../../../src/upstreams/links/bridge/held-calls.ts';
import type { ServerMessage, UpstreamCall } from '../../../../src/upstreams/links/link.ts';
import { createPendingCall, createPendingCalls } from '../../../../src/upstreams/links/relay/pending-calls.ts';
import type { Binding } from '../../../../src/upstreams/links/relay/towards-upstream.ts';
import { mine, otherServer, otherSession, parsed, request } from '../relay/handles.ts';

interface Asked {
  readonly id: unknown;
  readonly result: {
    readonly resultType: string;
    readonly requestState: string;
    readonly inputRequests: Record<string, { readonly method: string; readonly params?: Record<string, unknown> }>;
  };
}

function openChannel(): Channel {
  return { owner: {}, isGone: () => false, emit: () => true, onDrain() {}, onGone() {}, close() {} };
}

/** An upstream with calls under way, which can ask; and the clients that wait for them. */
function bridge(binding: Binding = mine) {
  const pending = createPendingCalls();
  const held = createHeldCalls(binding);
  const responses: Record<string, unknown>[] = [];

  function call(name: string, method = 'tools/call') {
    const upstreamId = pending.nextId();
    const message = request(method, '{}', `"${name}"`);
    const made = { message, channel: openChannel() } as unknown as UpstreamCall;
    const reply = new Promise<FinalReply>((settle, fail) =>
      pending.add(createPendingCall(made, message, name, upstreamId, binding, 60_000, settle, fail)),
    );
    return { upstreamId, reply: reply.then(readReply) };
  }

  function ask(id: string, from?: number, more = ''): boolean {
    return held.hold({
      message: request('elicitation/create', `{"message":"${id}?${more}"}`, `"${id}"`),
      pending,
      respond: (bytes: Buffer) => void responses.push(parsed(bytes)),
      call: from === undefined ? undefined : pending.get(from),
    } as unknown as ServerMessage);
  }

  function retry(name: string, state: string, responses: Record<string, unknown>, method = 'tools/call') {
    const params = JSON.stringify({ name, requestState: state, inputResponses: responses });
    const again = request(method, params, '"again"');
    return held.resume({ message: again, channel: openChannel() } as unknown as UpstreamCall, pending);
  }

  function finish(upstreamId: number, text: string): void {
    const bytes = Buffer.from(`{"jsonrpc":"2.0","id":"again","result":{"text":"${text}"}}`);
    pending.take(upstreamId)?.settle({ kind: 'message', bytes });
  }

  /** A call whose client has got a question. */
  async function askOnce(question = 'name') {
    const { upstreamId, reply } = call('tool');
    ask(question);
    return { upstreamId, asked: await reply };
  }

  return { pending, held, responses, call, ask, askOnce, retry, finish };
}

function readReply(reply: FinalReply): Asked {
  if (reply.kind !== 'message') throw new Error('no message');
  return parsed<Asked>(reply.bytes);
}

const only = (asked: Asked) => Object.keys(asked.result.inputRequests)[0] as string;

test('the caller is let go with the question, and its return with the answer waits for the call itself', async () => {
  const { pending, responses, call, ask, retry, finish } = bridge();
  const first = call('tool');
  expect(ask('name')).toBe(true);
  const asked = await first.reply;
  expect(asked).toMatchObject({ id: 'tool', result: { resultType: 'input_required' } });
  expect(asked.result.inputRequests[only(asked)]).toEqual({
    method: 'elicitation/create',
    params: { message: 'name?' },
  });
  expect(pending.size()).toBe(1);
  const returned = retry('tool', asked.result.requestState, { [only(asked)]: { action: 'accept' } });
  expect(responses).toEqual([{ jsonrpc: '2.0', id: 'name', result: { action: 'accept' } }]);
  expect(pending.get(first.upstreamId)?.timeoutMs).toBe(60_000);
  finish(first.upstreamId, 'done');
  expect(readReply((await returned) as FinalReply)).toMatchObject({ id: 'again', result: { text: 'done' } });
});

test('a retry without the answer is asked again, and one of another shape is none of ours', async () => {
  const { askOnce, retry, responses } = bridge();
  const { asked } = await askOnce();
  const again = readReply((await retry('tool', asked.result.requestState, { wrong: {} })) as FinalReply);
  expect(again.result.inputRequests).toEqual(asked.result.inputRequests);
  expect(responses).toEqual([]);
  expect(retry('tool', 'made up', {})).toBeUndefined();
});

describe('a requestState', () => {
  test.each<[string, Binding, string, string]>([
    ['another session', otherSession, 'tool', 'tools/call'],
    ['another server', otherServer, 'tool', 'tools/call'],
    ['another tool', mine, 'other', 'tools/call'],
    ['another method', mine, 'tool', 'prompts/get'],
  ])('of %s is not taken', async (_name, binding, tool, method) => {
    const owner = bridge();
    const { result } = (await owner.askOnce()).asked;
    const taker = binding === mine ? owner : bridge(binding);
    expect(taker.retry(tool, result.requestState, { 'ask-1': {} }, method)).toBeUndefined();
    expect(owner.responses).toEqual([]);
  });

  test('is used up by its answer', async () => {
    const { askOnce, retry } = bridge();
    const { asked } = await askOnce();
    void retry('tool', asked.result.requestState, { [only(asked)]: {} });
    expect(() => retry('tool', asked.result.requestState, { [only(asked)]: {} })).toThrow(/no longer open/);
  });
});

test('questions asked one right after the other go together, and each answer is told at once', async () => {
  const { call, ask, retry, responses, finish } = bridge();
  const first = call('tool');
  for (const name of ['one', 'two', 'three']) expect(ask(name)).toBe(true);
  const asked = await first.reply;
  const keys = Object.keys(asked.result.inputRequests);
  expect(keys.map((key) => asked.result.inputRequests[key]?.params?.message)).toEqual(['one?', 'two?', 'three?']);
  const [one = '', two = '', three = ''] = keys;
  const rest = readReply((await retry('tool', asked.result.requestState, { [one]: {}, [three]: {} })) as FinalReply);
  expect(responses.map(({ id }) => id)).toEqual(['one', 'three']);
  expect(Object.keys(rest.result.inputRequests)).toEqual([two]);
  const last = retry('tool', rest.result.requestState, { [two]: {} });
  finish(first.upstreamId, 'all');
  expect(readReply((await last) as FinalReply).result).toEqual({ text: 'all' });
});

test('a server that answers before it is told is told all the same', async () => {
  const { call, ask, retry, responses, finish } = bridge();
  const first = call('tool');
  ask('name');
  finish(first.upstreamId, 'done');
  const asked = await first.reply;
  const last = retry('tool', asked.result.requestState, { [only(asked)]: { n: 1 } });
  expect(responses.map(({ id }) => id)).toEqual(['name']);
  expect(readReply((await last) as FinalReply).result).toEqual({ text: 'done' });
});

test('a second question while the client is away waits for its return', async () => {
  const { ask, askOnce, retry, responses, finish } = bridge();
  const { upstreamId, asked } = await askOnce('one');
  expect(ask('two')).toBe(true);
  const next = readReply((await retry('tool', asked.result.requestState, { [only(asked)]: { n: 1 } })) as FinalReply);
  expect(next.result.inputRequests[only(next)]?.params).toEqual({ message: 'two?' });
  expect(responses).toHaveLength(1);
  const last = retry('tool', next.result.requestState, { [only(next)]: { n: 2 } });
  expect(responses.map(({ id }) => id)).toEqual(['one', 'two']);
  finish(upstreamId, 'both');
  expect(readReply((await last) as FinalReply).result).toEqual({ text: 'both' });
});

test('an answer that came while the client was away is kept for it', async () => {
  const { askOnce, retry, finish } = bridge();
  const { upstreamId, asked } = await askOnce();
  finish(upstreamId, 'did without');
  const returned = readReply((await retry('tool', asked.result.requestState, { [only(asked)]: {} })) as FinalReply);
  expect(returned).toMatchObject({ id: 'again', result: { text: 'did without' } });
});

test('where the transport tells, a question goes to the call it belongs to and not to the youngest', async () => {
  const { call, ask } = bridge();
  const older = call('older');
  const younger = call('younger');
  expect(ask('name', older.upstreamId)).toBe(true);
  expect(await older.reply).toMatchObject({ id: 'older', result: { resultType: 'input_required' } });
  expect(ask('next', older.upstreamId)).toBe(true);
  expect(ask('other')).toBe(true);
  const asked = await younger.reply;
  expect(asked.result.inputRequests[only(asked)]?.params).toEqual({ message: 'other?' });
});

test('a further question goes to the call held last, not to one whose client never came back', async () => {
  const { call, ask } = bridge();
  const abandoned = call('abandoned');
  ask('old');
  await abandoned.reply;
  const fresh = call('fresh');
  ask('one');
  ask('two');
  const asked = await fresh.reply;
  expect(Object.values(asked.result.inputRequests).map(({ params }) => params?.message)).toEqual(['one?', 'two?']);
});

test('where nobody has asked anything there is nobody to ask', () => {
  const { ask, call } = bridge();
  expect(ask('name')).toBe(false);
  call('list', 'tools/list');
  expect(ask('name')).toBe(false);
});

test('no more than 32 are held; what has waited too long is answered and let go', async () => {
  const { call, ask, held, pending, responses, retry } = bridge();
  const replies: Promise<Asked>[] = [];
  for (let at = 0; at < 32; at++) {
    replies.push(call(`tool-${at}`).reply);
    expect(ask(`q${at}`)).toBe(true);
  }
  call('one-more');
  expect(() => ask('q32')).toThrow(/Too many requests are in progress/);
  const first = (await replies[0]) as Asked;
  held.sweep(Date.now() + 9 * 60_000, pending);
  expect(responses).toEqual([]);
  held.sweep(Date.now() + 11 * 60_000, pending);
  expect(responses).toHaveLength(32);
  expect(responses[0]).toMatchObject({ id: 'q0', error: { code: -32603 } });
  expect(pending.size()).toBe(1);
  expect(() => retry('tool-0', first.result.requestState, { [only(first)]: {} })).toThrow(/no longer open/);
  expect(ask('q33')).toBe(true);
});

test('while the client is away a server may ask 64 questions, and not more', async () => {
  const { call, ask, retry, responses } = bridge();
  const first = call('tool');
  for (let at = 0; at < 64; at++) expect(ask(`q${at}`)).toBe(true);
  expect(() => ask('q64')).toThrow(/Too many requests are in progress/);
  const asked = await first.reply;
  const keys = Object.keys(asked.result.inputRequests);
  expect(keys).toHaveLength(64);
  expect(() => ask('q65')).toThrow(/Too many requests are in progress/);
  void retry('tool', asked.result.requestState, { [keys[0] as string]: {} });
  expect(responses).toHaveLength(1);
  expect(ask('q66')).toBe(true);
});

test('questions that wait take 16 MB in all calls together; a single one may take more', async () => {
  const { call, ask, retry } = bridge();
  const megabyte = 'x'.repeat(1 << 20);
  const first = call('one');
  for (let at = 0; at < 8; at++) ask(`q${at}`, first.upstreamId, megabyte);
  const second = call('two');
  for (let at = 0; at < 7; at++) ask(`r${at}`, second.upstreamId, megabyte);
  expect(() => ask('r7', second.upstreamId, megabyte)).toThrow(/Too many requests are in progress/);
  const third = call('three');
  expect(() => ask('s0', third.upstreamId, megabyte)).toThrow(/Too many requests are in progress/);
  const [one, two] = [await first.reply, await second.reply];
  const all = (asked: Asked) => Object.fromEntries(Object.keys(asked.result.inputRequests).map((key) => [key, {}]));
  void retry('one', one.result.requestState, all(one));
  void retry('two', two.result.requestState, all(two));
  expect(ask('s1', third.upstreamId, 'x'.repeat(17 << 20))).toBe(true);
});
