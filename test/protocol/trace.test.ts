import fc from 'fast-check';
import { expect, test } from 'vitest';
import { applyEdits } from '../../src/protocol/json/edit.ts';
import { readMessage } from '../../src/protocol/message.ts';
import { createReservedKeys, stripReservedMeta } from '../../src/protocol/reserved-meta.ts';
import { createTraceEdits, readTrace, reserveInvalidTrace, type TraceHeaders } from '../../src/protocol/trace.ts';
import { counts } from '../proof.ts';

const traceId = '0af7651916cd43dd8448eb211c80319c';
const parent = `00-${traceId}-b7ad6b7169203331-01`;
const keys = createReservedKeys(['ambit']);

function createRequest(meta?: unknown) {
  const params = meta === undefined ? {} : { params: { name: 'x', _meta: meta } };
  return readMessage(Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', ...params })));
}

/** Applies the edits that the pipeline makes. */
function passOn(meta: unknown, headers?: TraceHeaders): Record<string, unknown> {
  const message = createRequest(meta);
  const trace = readTrace(message, headers);
  const edits = [
    ...stripReservedMeta(message, reserveInvalidTrace(message, trace, keys)),
    ...createTraceEdits(message, trace),
  ];
  const { params } = JSON.parse(applyEdits(message.bytes, edits).toString()) as { params: { _meta: object } };
  return params._meta as Record<string, unknown>;
}

test('a trace keeps its id and gets a span of ours', () => {
  const trace = readTrace(createRequest({ traceparent: parent }));
  expect(trace).toMatchObject({ traceId, from: 'meta', headers: undefined });
  expect(trace?.spanId).toMatch(/^[0-9a-f]{16}$/);
  expect(trace?.spanId).not.toBe('b7ad6b7169203331');
  expect(trace?.parent).toBe(`00-${traceId}-${trace?.spanId}-01`);
  const after = passOn({ a: 1, traceparent: parent, tracestate: 'x=1' });
  expect(after).toEqual({
    a: 1,
    traceparent: expect.stringMatching(`^00-${traceId}-[0-9a-f]{16}-01$`),
    tracestate: 'x=1',
  });
});

test('`_meta` precedes the header; a trace from a header is passed on in one', () => {
  const other = `00-${'1'.repeat(32)}-${'2'.repeat(16)}-00`;
  const both = readTrace(createRequest({ traceparent: parent }), { parent: other, state: 'x=1' });
  expect(both).toMatchObject({ traceId, from: 'meta', headers: { traceparent: both?.parent } });
  expect(both?.headers).not.toHaveProperty('tracestate');
  const header = readTrace(createRequest(), { parent: other, state: 'x=1' });
  expect(header).toMatchObject({ traceId: '1'.repeat(32), from: 'header' });
  expect(header?.headers).toEqual({ traceparent: header?.parent, tracestate: 'x=1' });
  expect(readTrace(createRequest(), { parent: other, state: 'x\r\ny: z' })?.headers).not.toHaveProperty('tracestate');
  expect(readTrace(createRequest(), { parent: other, state: 'x'.repeat(513) })?.headers).not.toHaveProperty(
    'tracestate',
  );
  expect(readTrace(createRequest())).toBeUndefined();
});

test.each([
  ['no text', 7],
  ['empty', ''],
  ['too short', parent.slice(0, -1)],
  ['too long for its version', `${parent}-00`],
  ['capital letters', parent.toUpperCase()],
  ['version ff', `ff${parent.slice(2)}`],
  ['no trace', `00-${'0'.repeat(32)}-b7ad6b7169203331-01`],
  ['no span', `00-${traceId}-${'0'.repeat(16)}-01`],
  ['two at once', `${parent}, ${parent}`],
  ['a line break', `${parent}\n`],
  ['an object', { traceparent: parent }],
])('a malformed trace is dropped with its state: %s', (_, value) => {
  expect(readTrace(createRequest({ traceparent: value }))).toBeUndefined();
  expect(passOn({ a: 1, 'ambit/x': 1, traceparent: value, tracestate: 'x=1' })).toEqual({ a: 1 });
  expect(passOn({ 'ambit/x': 1, traceparent: value })).toEqual({});
  if (typeof value === 'string')
    expect(readTrace(createRequest(), { parent: value, state: undefined })).toBeUndefined();
});

test('of a later version only known fields are passed on', () => {
  const trace = readTrace(createRequest({ traceparent: `cc-${traceId}-b7ad6b7169203331-ff-more` }));
  expect(trace?.parent).toBe(`00-${traceId}-${trace?.spanId}-01`);
});

test('a state without a trace is ignored, and an answer has no trace', () => {
  expect(passOn({ tracestate: 'x=1' })).toEqual({ tracestate: 'x=1' });
  const answer = readMessage(Buffer.from(`{"jsonrpc":"2.0","id":1,"result":{"_meta":{"traceparent":"${parent}"}}}`));
  expect(readTrace(answer, { parent, state: undefined })).toBeUndefined();
});

test('the rest of `_meta` is unchanged, in any order', () => {
  const others = fc.dictionary(
    fc.string({ maxLength: 8 }).map((key) => `k${key}`),
    fc.jsonValue(),
    { maxKeys: 4 },
  );
  const extra = fc.constantFrom({}, { 'ambit/a': 1 }, { baggage: 'ambit.x=1,y=2' }, { 'ambit/a': 1, 'ambit.b': {} });
  const value = fc.constantFrom<unknown>(parent, 'nonsense', 5);
  fc.assert(
    fc.property(others, extra, value, fc.nat(), (rest, ours, traceparent, turn) => {
      const members = Object.entries({ ...rest, ...ours, traceparent });
      const turned = [...members.slice(turn % members.length), ...members.slice(0, turn % members.length)];
      const after = passOn(Object.fromEntries(turned));
      const { traceparent: now, baggage, ...kept } = after;
      expect(kept).toEqual(JSON.parse(JSON.stringify(rest)));
      expect(baggage).toBe('baggage' in ours ? 'y=2' : undefined);
      if (traceparent === parent) expect(now).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
      else expect(now).toBeUndefined();
    }),
    { numRuns: counts(200, 3000) },
  );
});
