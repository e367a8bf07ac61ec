import { randomBytes } from 'node:crypto';
import { startTrace, type Trace, withUpstreamSpan } from '../../protocol/trace.ts';
import { scrub, shortIds } from '../log/scrub.ts';
import type { Span } from './exporter.ts';

/** One exchange that is over, as far as others may know of it. */
export interface Told {
  readonly trace: Trace;
  readonly entrance: 'http' | 'stdio';
  readonly server: string;
  readonly method: string;
  /** Of a tool, a prompt or a resource. */
  readonly name: string | undefined;
  readonly requestId: string | undefined;
  readonly sessionId: string | undefined;
  readonly correlationId: string;
  readonly rule: string | undefined;
  readonly cached: boolean;
  /** A code of ours, the number of an error of JSON-RPC, or `tool_error` where a result says that it is none. */
  readonly errorType: string | undefined;
  /** On the clock of `performance.now()`. */
  readonly from: number;
  readonly until: number;
  /** Not there where nobody was asked. */
  readonly upstream: { readonly server: string; readonly from: number; readonly until: number } | undefined;
}

/** Decides which exchanges are told as spans, and makes them. */
export interface Tracer {
  /** The trace an exchange is part of from here on; `asks` where an upstream may be asked. */
  begin(given: Trace | undefined, asks: boolean): Trace;
  end(exchange: Told): void;
}

const longest = 128;

export function createTracer(add: (span: Span) => void, sampleRatio: number): Tracer {
  return {
    begin(given, asks) {
      const trace = given ?? startTrace(...newTrace(sampleRatio));
      return asks && trace.sampled ? withUpstreamSpan(trace) : trace;
    },

    end(told) {
      const { trace, upstream } = told;
      if (!trace.sampled) return;
      const { traceId, spanId, parentId, upstreamSpanId } = trace;
      // Taken now, so that both spans stand on the clock of the others, whatever happened to it since the start.
      const epoch = Date.now() - performance.now();
      const failed = told.errorType !== undefined;
      const attributes = attributesOf(told);
      const times = { from: epoch + told.from, until: epoch + told.until };
      const name = spanName(attributes);
      add({ traceId, spanId, parentId, name, kind: 'server', ...times, failed, attributes });
      if (upstream === undefined || upstreamSpanId === undefined) return;
      const asked = askedOf(attributes, upstream.server);
      add({
        traceId,
        spanId: upstreamSpanId,
        parentId: spanId,
        name: spanName(asked),
        kind: 'client',
        from: epoch + upstream.from,
        until: epoch + upstream.until,
        failed,
        attributes: asked,
      });
    },
  };
}

/** A new id, and whether it is told. The id itself decides, so that everybody who knows the ratio decides alike. */
function newTrace(sampleRatio: number): [traceId: string, sampled: boolean] {
  const traceId = randomBytes(16).toString('hex');
  return [traceId, Number.parseInt(traceId.slice(-13), 16) / 2 ** 52 < sampleRatio];
}

type Attributes = Record<string, string | boolean | undefined>;

const toolName = 'gen_ai.tool.name';
const promptName = 'gen_ai.prompt.name';

/** By the conventions of OpenTelemetry for MCP. Addresses of resources are left out: they may hold anything. */
function attributesOf(told: Told): Attributes {
  const { method, name, errorType } = told;
  const isTool = method === 'tools/call';
  return {
    'mcp.method.name': shown(method),
    'mcp.session.id': told.sessionId?.slice(0, 8),
    'gen_ai.operation.name': isTool ? 'execute_tool' : undefined,
    [toolName]: isTool ? shown(name) : undefined,
    [promptName]: method === 'prompts/get' ? shown(name) : undefined,
    'rpc.system': 'jsonrpc',
    'jsonrpc.request.id': shown(told.requestId?.replace(/^"|"$/g, '')),
    'rpc.response.status_code': errorType !== undefined && /^-?\d+$/.test(errorType) ? errorType : undefined,
    'error.type': errorType,
    'network.transport': told.entrance === 'http' ? 'tcp' : 'pipe',
    'ambit.server': shown(told.server),
    'ambit.correlation.id': told.correlationId.slice(0, 8),
    'ambit.rule': shown(told.rule),
    'ambit.cached': told.cached || undefined,
  };
}

/** What one server was asked; how its answer came to the client does not concern it. */
function askedOf(attributes: Attributes, server: string): Attributes {
  const { 'network.transport': _ours, 'jsonrpc.request.id': _theirs, 'ambit.rule': _rule, ...same } = attributes;
  const name = attributes[toolName];
  const prefix = `${server}__`;
  const own = typeof name === 'string' && name.startsWith(prefix) ? name.slice(prefix.length) : name;
  return { ...same, [toolName]: own, 'ambit.server': server };
}

function spanName(attributes: Attributes): string {
  const target = attributes[toolName] ?? attributes[promptName];
  const method = String(attributes['mcp.method.name']);
  return target === undefined ? method : `${method} ${target}`;
}

/** Clients choose these words: they are scrubbed like those of a log, and cut. */
function shown(text: string | undefined): string | undefined {
  return text === undefined ? undefined : shortIds(scrub(text)).slice(0, longest);
}
