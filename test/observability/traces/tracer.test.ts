import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type ObservedGateway, startObservedGateway } from '../../journeys/observed/start-observed-gateway.ts';
import { callModern, connectHandshake, readToolText, sendModern } from '../../journeys/raw-mcp-client.ts';
import { counts } from '../../proof.ts';
import { findSample } from '../metrics/read-samples.ts';
import { type Collector, type ReceivedSpan, startCollector } from './collector.ts';

const parentSpan = 'b7ad6b7169203331';
const [serverKind, clientKind] = [2, 3];

let traces = 0;
/** Each call gets its own trace, so that its spans can be told apart. */
function createTraceId(): string {
  return (++traces).toString(16).padStart(32, 'a');
}
const formatParent = (traceId: string, flags = '01') => `00-${traceId}-${parentSpan}-${flags}`;
const inMeta = (traceparent: string) => ({ meta: `"traceparent":"${traceparent}"` });

let collector: Collector;
let on: ObservedGateway;
let session: { readonly id: string; readonly token: string };
let told: (fits: (span: ReceivedSpan) => boolean, count: number) => Promise<ReceivedSpan[]>;

beforeAll(async () => {
  collector = await startCollector();
  on = await startObservedGateway({
    telemetry: { otlpUrl: collector.url, headers: { 'x-key': 'of-the-collector' } },
    rules: [{ id: 'never', deny: 'pipe__forbidden' }],
  });
  session = await on.gateway.createSession({ userId: 'lovelace' });
  told = (fits, count) => collector.sees(count, fits);
});
afterAll(async () => {
  await on.closed();
  await collector.close();
});

function readMeta(raw: string): Record<string, unknown> {
  return (JSON.parse(raw) as { params: { _meta?: Record<string, unknown> } }).params._meta ?? {};
}

const calls = {
  modern: (path: string, tool: string, meta: { meta: string }) =>
    readToolText(callModern(`${on.url}${path}`, session.token, tool, '{}', meta)),
  handshake: async (path: string, tool: string, meta: { meta: string }) =>
    readToolText((await connectHandshake(`${on.url}${path}`, session.token)).call(tool, '{}', meta)),
} as const;

const ways = [
  ['/mcp/pipe', 'echo', 'pipe'],
  ['/mcp/old', 'echo', 'old'],
  ['/mcp/new', 'echo', 'new'],
  ['/mcp/web', 'echo', 'web'],
  ['/mcp', 'pipe__echo', 'pipe'],
] as const;

// Spans are sent once a second, so the tests wait concurrently; each knows its own by the trace.
describe.concurrent('spans', () => {
  test('L8: in both eras, at each address, spans nest: client, gateway, request to the upstream, server', async () => {
    const all = (['modern', 'handshake'] as const).flatMap((era) =>
      ways.map((way) => ({ era, way, traceId: createTraceId() })),
    );
    const raws = await Promise.all(
      all.map(({ era, way: [path, tool], traceId }) => calls[era](path, tool, inMeta(formatParent(traceId)))),
    );
    for (const [index, { way, traceId }] of all.entries()) {
      const [, tool, server] = way;
      const spans = await told((span) => span.traceId === traceId, 2);
      expect(spans).toHaveLength(2);
      const outer = spans.find(({ kind }) => kind === serverKind) as ReceivedSpan;
      const inner = spans.find(({ kind }) => kind === clientKind) as ReceivedSpan;
      expect([outer.parentSpanId, inner.parentSpanId]).toEqual([parentSpan, outer.spanId]);
      expect(readMeta(raws[index] as string)['traceparent']).toBe(`00-${traceId}-${inner.spanId}-01`);
      expect(outer.from <= inner.from && inner.until <= outer.until).toBe(true);
      expect([outer.name, inner.name]).toEqual([`tools/call ${tool}`, 'tools/call echo']);
      expect([outer.failed, inner.failed]).toEqual([false, false]);
      const both = {
        'mcp.method.name': 'tools/call',
        'mcp.session.id': session.id.slice(0, 8),
        'gen_ai.operation.name': 'execute_tool',
        'rpc.system': 'jsonrpc',
      };
      expect(outer.attributes).toMatchObject({ ...both, 'gen_ai.tool.name': tool, 'network.transport': 'tcp' });
      expect(inner.attributes).toMatchObject({ ...both, 'gen_ai.tool.name': 'echo', 'ambit.server': server });
    }
  });

  test('L8: without a trace of the client, a new one is started and passed to the server', async () => {
    const before = collector.spans.length;
    const overPipe = readMeta(await readToolText(callModern(`${on.url}/mcp/pipe`, session.token, 'echo', '{"n":1}')));
    const traceId = String(overPipe['traceparent']).slice(3, 35);
    const [outer, inner] = await told((span) => span.traceId === traceId, 2);
    expect(outer?.parentSpanId).toBeUndefined();
    expect(overPipe['traceparent']).toBe(`00-${traceId}-${inner?.spanId}-01`);
    expect(collector.spans.length).toBeGreaterThan(before);

    const raw = await readToolText(callModern(`${on.url}/mcp/web`, session.token, 'echo', '{"n":"own trace"}'));
    const { headers } = (await on.overHttp()).find(({ body }) => body === raw) as { headers: string[] };
    const sent = headers[headers.findIndex((name) => name.toLowerCase() === 'traceparent') + 1] ?? '';
    expect(sent).toMatch(/^00-[0-9a-f]{32}-[0-9a-f]{16}-01$/);
    await told((span) => span.spanId === sent.slice(36, 52), 1);
  });

  test('L8: an unsampled trace of a client stays unsampled, also for the server', async () => {
    const hidden = createTraceId();
    const seen = createTraceId();
    const raw = await calls.modern('/mcp/pipe', 'echo', inMeta(formatParent(hidden, '00')));
    expect(readMeta(raw)['traceparent']).toMatch(new RegExp(`^00-${hidden}-(?!${parentSpan})[0-9a-f]{16}-00$`));
    const header = { headers: { traceparent: formatParent(hidden, '00') } };
    await readToolText(callModern(`${on.url}/mcp/pipe`, session.token, 'echo', '{}', header));
    await calls.modern('/mcp/pipe', 'echo', inMeta(formatParent(seen)));
    // Spans are sent in order: a later one has arrived, so an earlier one would have too.
    await told((span) => span.traceId === seen, 2);
    expect(collector.bodies.join('')).not.toContain(hidden);
  });

  test('L8: error.type has refusals of Ambit, errors of the protocol and errors of tools', async () => {
    const of = async (path: string, name: string, args = '{}') => {
      const traceId = createTraceId();
      await readToolText(
        callModern(`${on.url}${path}`, session.token, name, args, inMeta(formatParent(traceId))),
      ).catch(() => '');
      return traceId;
    };
    const says = (inside: string) => `{"lines":[${JSON.stringify(`{"jsonrpc":"2.0","id":$ID,${inside}}`)}]}`;
    const [denied, away, unknown, failed, own] = await Promise.all([
      of('/mcp/pipe', 'forbidden'),
      of('/mcp/nowhere', 'echo'),
      of('/mcp/pipe', 'say', says('"error":{"code":-32602,"message":"planted"}')),
      of('/mcp/pipe', 'say', says('"result":{"resultType":"complete","content":[],"isError":true}')),
      of('/mcp/ambit', 'session_info', '{"session":"nobody"}'),
    ]);
    const spans = await collector.sees(7, ({ traceId }) => [denied, away, unknown, failed, own].includes(traceId));
    const errors = (traceId: string) =>
      spans.filter((span) => span.traceId === traceId).map((span) => [span.failed, span.attributes['error.type']]);
    // Without a request to an upstream there is no span for it.
    expect(errors(denied)).toEqual([[true, 'PERMISSION_DENIED']]);
    expect(errors(away)).toEqual([[true, 'SERVER_NOT_AVAILABLE']]);
    expect(errors(own)).toEqual([[true, 'SESSION_NOT_FOUND']]);
    expect(errors(unknown)).toEqual([
      [true, '-32602'],
      [true, '-32602'],
    ]);
    expect(errors(failed)).toEqual([
      [true, 'tool_error'],
      [true, 'tool_error'],
    ]);
    const [rule] = spans.filter(({ traceId }) => traceId === denied);
    expect(rule?.attributes['ambit.rule']).toMatch(/never/);
  });

  test('L8, L9: no span contains a token, a whole id, an argument or the URI of a resource', async () => {
    const traceId = createTraceId();
    const meta = inMeta(formatParent(traceId));
    const odd = [session.token, session.id, 'ghp_16C7e42F292c6912E7710c838347Ae178B4a'];
    const ask = (method: string, name: string, params: string) =>
      sendModern(`${on.url}/mcp/pipe`, session.token, {
        method,
        name,
        params,
        id: `"${method} ${odd.indexOf(name)}"`,
        ...meta,
      }).then((sent) => sent.rest());
    await Promise.all([
      ...odd.map((name) => ask('prompts/get', name, `"name":"${name}","arguments":{"password":"planted-argument"}`)),
      ask('resources/read', 'x://planted-address', '"uri":"x://planted-address"'),
    ]);
    await told((span) => span.traceId === traceId && span.kind === serverKind, odd.length + 1);
    const said = collector.bodies.join('\n');
    for (const secret of [...odd, 'planted', 'of-the-collector', 'lovelace']) expect(said.includes(secret)).toBe(false);
    expect(collector.asked[0]?.headers['x-key']).toBe('of-the-collector');
    expect(on.lines.map(({ line }) => line).join('\n')).not.toContain('of-the-collector');
  });

  test('L8: a ratio of zero records only traces that clients sample; spans are counted', async () => {
    const rarely = await startObservedGateway({ telemetry: { otlpUrl: collector.url, sampleRatio: 0 } });
    const { token } = await rarely.gateway.createSession({});
    const url = `${rarely.url}/mcp/pipe`;
    const unseen = readMeta(await readToolText(callModern(url, token, 'echo', '{}')));
    expect(unseen['traceparent']).toMatch(/-00$/);
    const traceId = createTraceId();
    await readToolText(callModern(url, token, 'echo', '{}', inMeta(formatParent(traceId))));
    await told((span) => span.traceId === traceId, 2);
    expect(collector.bodies.join('')).not.toContain(String(unseen['traceparent']).slice(3, 35));
    // Spans are counted once the collector has answered.
    let sent = 0;
    while (sent < 2) {
      sent = findSample(await rarely.metrics(), 'ambit_spans_total', { result: 'sent' }) ?? 0;
    }
    expect(sent).toBe(2);
    await rarely.closed();
  });

  test('L8: a dead collector does not delay calls, and lost spans are counted', async () => {
    const dead = await startObservedGateway({ telemetry: { otlpUrl: 'http://127.0.0.1:1' } });
    const { token } = await dead.gateway.createSession({});
    const url = `${dead.url}/mcp/pipe`;
    const many = counts(50, 200);
    const answers = await Promise.all(
      Array.from({ length: many }, (_, n) => readToolText(callModern(url, token, 'echo', `{"n":${n}}`))),
    );
    expect(answers).toHaveLength(many);
    const warned = () => dead.lines.filter(({ line }) => line.startsWith('collector did not accept spans'));
    while (warned().length === 0) await readToolText(callModern(url, token, 'echo', '{}'));
    expect(warned()).toHaveLength(1);
    await dead.closed();
  });
});
