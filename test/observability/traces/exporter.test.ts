import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  createExporter,
  type Exporter,
  type ExporterOptions,
  type Span,
} from '../../../src/observability/traces/exporter.ts';
import { proof } from '../../proof.ts';
import { type Collector, startCollector } from './collector.ts';

let collector: Collector;
let exporter: Exporter | undefined;
const counted = { sent: 0, dropped: 0 };
const warned: (object | undefined)[] = [];

beforeEach(async () => {
  collector = await startCollector();
  Object.assign(counted, { sent: 0, dropped: 0 });
  warned.length = 0;
});
afterEach(async () => {
  await exporter?.close();
  await collector.close();
});

function start(more: Partial<ExporterOptions> = {}, url = `${collector.url}/v1/traces?key=planted`): Exporter {
  exporter = createExporter({
    settings: { url: new URL(url), headers: { 'x-key': 'mine' }, sampleRatio: 1, serviceName: 'here' },
    log: { info() {}, warn: (_event, fields) => void warned.push(fields) },
    count: (result, spans) => {
      counted[result] += spans;
    },
    everyMs: 5,
    ...more,
  });
  return exporter;
}

const span = (number: number): Span => ({
  traceId: '0af7651916cd43dd8448eb211c80319c',
  spanId: (number + 1).toString(16).padStart(16, '0'),
  parentId: undefined,
  name: `call ${number}`,
  kind: 'server',
  from: Date.now(),
  until: Date.now() + 0.25,
  failed: false,
  attributes: { number: String(number), absent: undefined, yes: true },
});

test('L8: what is added arrives, some at a time, with the headers that were asked for', async () => {
  const { add, close } = start();
  for (let number = 0; number < 600; number++) add(span(number));
  const spans = await collector.sees(600);
  expect(spans.map(({ name }) => name)).toEqual(Array.from({ length: 600 }, (_, number) => `call ${number}`));
  expect(spans[7]?.attributes).toEqual({ number: '7', yes: true });
  expect(collector.asked.length).toBeGreaterThanOrEqual(3);
  expect(collector.asked[0]).toMatchObject({
    path: '/v1/traces?key=planted',
    headers: { 'content-type': 'application/json', 'x-key': 'mine' },
  });
  await close();
  expect(counted).toEqual({ sent: 600, dropped: 0 });
  expect(warned).toEqual([]);
});

test('L8: a collector that is busy gets them later; what does not fit meanwhile is counted and gone', async () => {
  collector.status = 503;
  const { add, close } = start({ maxWaiting: 10 });
  for (let number = 0; number < 25; number++) add(span(number));
  while (collector.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  collector.status = 200;
  const spans = await collector.sees(10);
  expect(spans.map(({ name }) => name)).toEqual(Array.from({ length: 10 }, (_, number) => `call ${number}`));
  await close();
  expect(counted).toEqual({ sent: 10, dropped: 15 });
  // Said once, and no more of the address than its host.
  expect(warned).toEqual([{ host: new URL(collector.url).host, why: 'status 503' }]);
});

test('what a collector refuses for good is not sent again', async () => {
  collector.status = 400;
  const { add, close } = start();
  add(span(0));
  while (counted.dropped === 0) await new Promise((resolve) => setImmediate(resolve));
  collector.status = 200;
  add(span(1));
  expect((await collector.sees(1)).map(({ name }) => name)).toEqual(['call 1']);
  await close();
  expect(counted).toEqual({ sent: 1, dropped: 1 });
});

test('closing sends what waits; a collector that does not answer does not keep it from closing', async () => {
  const first = start({ everyMs: 60_000 });
  first.add(span(0));
  await first.close();
  first.add(span(1));
  expect(collector.spans).toHaveLength(1);
  expect(counted).toEqual({ sent: 1, dropped: 1 });

  collector.status = 0;
  const second = start({ everyMs: 60_000 });
  second.add(span(2));
  const began = performance.now();
  await second.close();
  if (proof) expect(performance.now() - began).toBeLessThan(5000);
  expect(counted).toEqual({ sent: 1, dropped: 2 });
});

test('nothing there at all: spans are counted as lost, and nobody who adds one hears of it', async () => {
  const { add, close } = start({ maxWaiting: 3 }, 'http://127.0.0.1:1/v1/traces');
  for (let number = 0; number < 5; number++) expect(() => add(span(number))).not.toThrow();
  while (warned.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await close();
  expect(counted).toEqual({ sent: 0, dropped: 5 });
});
