import { randomBytes } from 'node:crypto';
import { type Edit, replaceValue } from './json/edit.ts';
import { memberOf, stringAt } from './json/scan.ts';
import type { Message } from './message.ts';
import type { OurKeys } from './reserved-meta.ts';

/** The W3C trace context of a request, as its HTTP headers have it. */
export interface TraceHeaders {
  readonly parent: string;
  readonly state: string | undefined;
}

/** The trace that a request is part of, and our own span in it. */
export interface Trace {
  readonly traceId: string;
  /** The client's, above ours; none where the trace starts here. */
  readonly parentId: string | undefined;
  /** Ours: what the upstream does hangs below it. */
  readonly spanId: string;
  /** Whether those before us want to see it. */
  readonly sampled: boolean;
  /** Where our spans are told to somebody, what the upstream is asked is one of its own, between ours and its. */
  readonly upstreamSpanId: string | undefined;
  /** What the upstream is told in place of what the client sent. */
  readonly parent: string;
  readonly from: 'meta' | 'header';
  /** What goes on in headers to an upstream over HTTP; nothing where the client sent none. */
  readonly headers: Readonly<Record<string, string>> | undefined;
}

const traceParentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-[\x21-\x7e]{0,256})?$/;
const zeroTrace = '0'.repeat(32);
const zeroSpan = '0'.repeat(16);
const sampledFlag = 0x01;
const maxStateLength = 512;

/** `_meta` comes before the header: a proxy that knows nothing of MCP may have set the latter. */
export function traceOf(message: Message, headers?: TraceHeaders): Trace | undefined {
  const member = memberOf(message.meta, 'traceparent');
  if (message.kind === 'response' || (member === undefined && headers === undefined)) return undefined;
  const inMeta = member === undefined ? undefined : parseTraceParent(stringAt(message.bytes, member));
  const inHeader = headers === undefined ? undefined : parseTraceParent(headers.parent);
  const found = inMeta ?? inHeader;
  if (found === undefined) return undefined;
  const spanId = createSpanId();
  const parent = `00-${found.traceId}-${spanId}-${found.flags}`;
  const state = inMeta === undefined ? readTraceState(headers) : undefined;
  return {
    traceId: found.traceId,
    parentId: found.spanId,
    spanId,
    sampled: (Number.parseInt(found.flags, 16) & sampledFlag) === sampledFlag,
    upstreamSpanId: undefined,
    parent,
    from: inMeta === undefined ? 'header' : 'meta',
    headers: inHeader === undefined ? undefined : { traceparent: parent, ...(state && { tracestate: state }) },
  };
}

/** A trace that starts here, with an id that is known not to be taken. It goes on as if it had come in a header. */
export function startTrace(traceId: string, isSampled: boolean): Trace {
  const spanId = createSpanId();
  const parent = `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
  return {
    traceId,
    parentId: undefined,
    spanId,
    sampled: isSampled,
    upstreamSpanId: undefined,
    parent,
    from: 'header',
    headers: { traceparent: parent },
  };
}

/** The same, in which the upstream hangs below a span of what it is asked. */
export function addUpstreamSpan(trace: Trace): Trace {
  const upstreamSpanId = createSpanId();
  const parent = trace.parent.replace(trace.spanId, upstreamSpanId);
  const headers = trace.headers === undefined ? undefined : { ...trace.headers, traceparent: parent };
  return { ...trace, upstreamSpanId, parent, headers };
}

function createSpanId(): string {
  const id = randomBytes(8).toString('hex');
  return id === zeroSpan ? createSpanId() : id;
}

/** What has to change in the message itself. */
export function traceEdits(message: Message, trace: Trace | undefined): Edit[] {
  const member = trace?.from === 'meta' ? memberOf(message.meta, 'traceparent') : undefined;
  return member === undefined || trace === undefined ? [] : [replaceValue(member, `"${trace.parent}"`)];
}

/** A trace that cannot be read goes no further, nor what only has a meaning together with it. */
export function keysWithTrace(message: Message, trace: Trace | undefined, keys: OurKeys): OurKeys {
  if (message.meta === undefined || message.kind === 'response' || trace?.from === 'meta') return keys;
  if (memberOf(message.meta, 'traceparent') === undefined) return keys;
  return { has: (key) => key === 'traceparent' || key === 'tracestate' || keys.has(key) };
}

interface TraceParent {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: string;
}

function parseTraceParent(text: string | undefined): TraceParent | undefined {
  const [, version, traceId, spanId, flags] = (text === undefined ? null : traceParentPattern.exec(text)) ?? [];
  if (text === undefined || version === undefined || traceId === undefined) return undefined;
  if (spanId === undefined || flags === undefined) return undefined;
  if (version === 'ff' || traceId === zeroTrace || spanId === zeroSpan) return undefined;
  // The first version ends here; of later ones only what the first has is understood, and said on.
  if (version === '00' && text.length !== 55) return undefined;
  const known = Number.parseInt(flags, 16) & sampledFlag;
  return { traceId, spanId, flags: version === '00' ? flags : known.toString(16).padStart(2, '0') };
}

function readTraceState(headers: TraceHeaders | undefined): string | undefined {
  const state = headers?.state;
  return state !== undefined && state.length <= maxStateLength && /^[\x20-\x7e]+$/.test(state) ? state : undefined;
}
