import { randomBytes } from 'node:crypto';
import { addUpstreamSpan, startTrace, type Trace } from '../../protocol/trace.ts';
import { scrubSecrets, shortenIds } from '../log/scrub.ts';
import type { Span } from './exporter.ts';

/** One finished exchange, as far as others may see it. */
interface TracedExchange {
  readonly trace: Trace;
  readonly entrance: 'http' | 'stdio';
  readonly server: string;
  readonly method: string;
  /** Name of a tool or a prompt, or URI of a resource. */
  readonly name: string | undefined;
  readonly requestId: string | undefined;
  readonly sessionId: string | undefined;
  readonly correlationId: string;
  readonly rule: string | undefined;
  readonly cached: boolean;
  /** A code of ours, the number of a JSON-RPC error, or `tool_error` if the result of a tool is an error. */
  readonly errorType: string | undefined;
  /** Times of `performance.now()`. */
  readonly from: number;
  readonly until: number;
  /** Undefined if no upstream was asked. */
  readonly upstream: { readonly server: string; readonly from: number; readonly until: number } | undefined;
  /** The upstream's own name of the tool or prompt, if the client used another one. */
  readonly upstreamName: string | undefined;
}

/** Decides which exchanges become spans, and creates them. */
export interface Tracer {
  /** Returns the trace of an exchange; `asks` if an upstream may be asked. */
  begin(given: Trace | undefined, asks: boolean): Trace;
  end(exchange: TracedExchange): void;
}

const maxAttributeLength = 128;

export function createTracer(add: (span: Span) => void, sampleRatio: number): Tracer {
  return {
    begin(given, asks) {
      const trace = given ?? startTrace(...chooseTraceId(sampleRatio));
      return asks && trace.sampled ? addUpstreamSpan(trace) : trace;
    },

    end(exchange) {
      const { trace, upstream } = exchange;
      if (!trace.sampled) return;
      const { traceId, spanId, parentId, upstreamSpanId } = trace;
      // Computed now, so that both spans agree with other clocks even if the system time was changed.
      const epoch = Date.now() - performance.now();
      const failed = exchange.errorType !== undefined;
      const attributes = createAttributes(exchange);
      const times = { from: epoch + exchange.from, until: epoch + exchange.until };
      const name = formatSpanName(attributes);
      add({ traceId, spanId, parentId, name, kind: 'server', ...times, failed, attributes });
      if (upstream === undefined || upstreamSpanId === undefined) return;
      const asked = createUpstreamAttributes(attributes, upstream.server, exchange.upstreamName);
      add({
        traceId,
        spanId: upstreamSpanId,
        parentId: spanId,
        name: formatSpanName(asked),
        kind: 'client',
        from: epoch + upstream.from,
        until: epoch + upstream.until,
        failed,
        attributes: asked,
      });
    },
  };
}

/** Chooses a trace id. The id itself decides whether it is recorded, so all with the same ratio agree. */
function chooseTraceId(sampleRatio: number): [traceId: string, sampled: boolean] {
  const traceId = randomBytes(16).toString('hex');
  return [traceId, Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 < sampleRatio];
}

type SpanAttributes = Record<string, string | boolean | undefined>;

const toolName = 'gen_ai.tool.name';
const promptName = 'gen_ai.prompt.name';

/** Creates the attributes of OpenTelemetry's conventions for MCP. URIs are left out: they may contain anything. */
function createAttributes(exchange: TracedExchange): SpanAttributes {
  const { method, name, errorType } = exchange;
  const isTool = method === 'tools/call';
  return {
    'mcp.method.name': scrubAttribute(method),
    'mcp.session.id': exchange.sessionId?.slice(0, 8),
    'gen_ai.operation.name': isTool ? 'execute_tool' : undefined,
    [toolName]: isTool ? scrubAttribute(name) : undefined,
    [promptName]: method === 'prompts/get' ? scrubAttribute(name) : undefined,
    'rpc.system': 'jsonrpc',
    'jsonrpc.request.id': scrubAttribute(exchange.requestId?.replace(/^"|"$/g, '')),
    'rpc.response.status_code': errorType !== undefined && /^-?\d+$/.test(errorType) ? errorType : undefined,
    'error.type': errorType,
    'network.transport': exchange.entrance === 'http' ? 'tcp' : 'pipe',
    'ambit.server': scrubAttribute(exchange.server),
    'ambit.correlation.id': exchange.correlationId.slice(0, 8),
    'ambit.rule': scrubAttribute(exchange.rule),
    'ambit.cached': exchange.cached || undefined,
  };
}

/** Creates the attributes of the request to one server; how the answer reached the client is left out. */
function createUpstreamAttributes(
  attributes: SpanAttributes,
  server: string,
  ownName: string | undefined,
): SpanAttributes {
  const { 'network.transport': _ours, 'jsonrpc.request.id': _theirs, 'ambit.rule': _rule, ...same } = attributes;
  const asked: SpanAttributes = { ...same, 'ambit.server': server };
  for (const key of [toolName, promptName]) {
    if (asked[key] !== undefined && ownName !== undefined) asked[key] = scrubAttribute(ownName);
  }
  return asked;
}

function formatSpanName(attributes: SpanAttributes): string {
  const target = attributes[toolName] ?? attributes[promptName];
  const method = String(attributes['mcp.method.name']);
  return target === undefined ? method : `${method} ${target}`;
}

/** Scrubs and cuts a text that a client chose, as in a log. */
function scrubAttribute(text: string | undefined): string | undefined {
  return text === undefined ? undefined : shortenIds(scrubSecrets(text)).slice(0, maxAttributeLength);
}
