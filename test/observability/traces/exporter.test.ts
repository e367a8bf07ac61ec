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

function startExporter(more: Partial<ExporterOptions> = {}, url = `${collector.url}/v1/traces?key=planted`): Exporter {
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

const createSpan = (number: number): Span => ({
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

test('L8: spans arrive in batches, with the configured headers', async () => {
  const { add, close } = startExporter();
  for (let number = 0; number < 600; number++) add(createSpan(number));
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

test('L8: a busy collector gets the spans later; spans beyond the queue are counted and dropped', async () => {
  collector.status = 503;
  const { add, close } = startExporter({ maxWaiting: 10 });
  for (let number = 0; number < 25; number++) add(createSpan(number));
  while (collector.asked.length === 0) await new Promise((resolve) => setImmediate(resolve));
  collector.status = 200;
  const spans = await collector.sees(10);
  expect(spans.map(({ name }) => name)).toEqual(Array.from({ length: 10 }, (_, number) => `call ${number}`));
  await close();
  expect(counted).toEqual({ sent: 10, dropped: 15 });
  // Logged once, with the host only.
  expect(warned).toEqual([{ host: new URL(collector.url).host, why: 'status 503' }]);
});

test('spans that a collector refuses for good are not sent again', async () => {
  collector.status = 400;
  const { add, close } = startExporter();
  add(createSpan(0));
  while (counted.dropped === 0) await new Promise((resolve) => setImmediate(resolve));
  collector.status = 200;
  add(createSpan(1));
  expect((await collector.sees(1)).map(({ name }) => name)).toEqual(['call 1']);
  await close();
  expect(counted).toEqual({ sent: 1, dropped: 1 });
});

test('closing sends the waiting spans; a collector that does not answer cannot block it', async () => {
  const first = startExporter({ everyMs: 60_000 });
  first.add(createSpan(0));
  await first.close();
  first.add(createSpan(1));
  expect(collector.spans).toHaveLength(1);
  expect(counted).toEqual({ sent: 1, dropped: 1 });

  collector.status = 0;
  const second = startExporter({ everyMs: 60_000 });
  second.add(createSpan(2));
  const began = performance.now();
  await second.close();
  if (proof) expect(performance.now() - began).toBeLessThan(5000);
  expect(counted).toEqual({ sent: 1, dropped: 2 });
});

test('without a collector, spans are counted as lost and callers get no error', async () => {
  const { add, close } = startExporter({ maxWaiting: 3 }, 'http://127.0.0.1:1/v1/traces');
  for (let number = 0; number < 5; number++) expect(() => add(createSpan(number))).not.toThrow();
  while (warned.length === 0) await new Promise((resolve) => setImmediate(resolve));
  await close();
  expect(counted).toEqual({ sent: 0, dropped: 5 });
});
