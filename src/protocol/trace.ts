import { randomBytes } from 'node:crypto';
import { type Edit, replaceValue } from './json/edit.ts';
import { findMember, readStringValue } from './json/scan.ts';
import type { Message } from './message.ts';
import type { ReservedKeys } from './reserved-meta.ts';

/** The W3C trace context of a request in its HTTP headers. */
export interface TraceHeaders {
  readonly parent: string;
  readonly state: string | undefined;
}

/** The trace that a request belongs to, and our own span in it. */
export interface Trace {
  readonly traceId: string;
  /** The client's span; undefined if the trace starts here. */
  readonly parentId: string | undefined;
  /** Our span, the parent of what the upstream does. */
  readonly spanId: string;
  readonly sampled: boolean;
  /** The span of the request to the upstream, if spans are exported; it lies between ours and the upstream's. */
  readonly upstreamSpanId: string | undefined;
  /** The `traceparent` that replaces the client's towards the upstream. */
  readonly parent: string;
  readonly from: 'meta' | 'header';
  /** Headers for an upstream over HTTP; undefined if the client sent none. */
  readonly headers: Readonly<Record<string, string>> | undefined;
}

const traceParentPattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-[\x21-\x7e]{0,256})?$/;
const zeroTrace = '0'.repeat(32);
const zeroSpan = '0'.repeat(16);
const sampledFlag = 0x01;
const maxStateLength = 512;

/** Reads the trace of a request. `_meta` precedes the header, which a proxy without knowledge of MCP may have set. */
export function readTrace(message: Message, headers?: TraceHeaders): Trace | undefined {
  const member = findMember(message.meta, 'traceparent');
  if (message.kind === 'response' || (member === undefined && headers === undefined)) return undefined;
  const inMeta = member === undefined ? undefined : parseTraceParent(readStringValue(message.bytes, member));
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

/** Starts a new trace with an unused id. It is passed on as if it had come in a header. */
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

/** Adds a span for the request to the upstream, which becomes the parent of the upstream's spans. */
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

/** Creates the edits that put the new `traceparent` into the message. */
export function createTraceEdits(message: Message, trace: Trace | undefined): Edit[] {
  const member = trace?.from === 'meta' ? findMember(message.meta, 'traceparent') : undefined;
  return member === undefined || trace === undefined ? [] : [replaceValue(member, `"${trace.parent}"`)];
}

/** Reserves the trace keys if the trace is invalid, so that it and its state are not passed on. */
export function reserveInvalidTrace(message: Message, trace: Trace | undefined, keys: ReservedKeys): ReservedKeys {
  if (message.meta === undefined || message.kind === 'response' || trace?.from === 'meta') return keys;
  if (findMember(message.meta, 'traceparent') === undefined) return keys;
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
  // Version 00 ends here; of later versions only the fields of version 00 are read and passed on.
  if (version === '00' && text.length !== 55) return undefined;
  const known = Number.parseInt(flags, 16) & sampledFlag;
  return { traceId, spanId, flags: version === '00' ? flags : known.toString(16).padStart(2, '0') };
}

function readTraceState(headers: TraceHeaders | undefined): string | undefined {
  const state = headers?.state;
  return state !== undefined && state.length <= maxStateLength && /^[\x20-\x7e]+$/.test(state) ? state : undefined;
}
