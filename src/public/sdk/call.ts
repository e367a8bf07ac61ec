import { hash } from 'node:crypto';

export type CallHeaders =
  | { get(name: string): string | null }
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** A call described by the author, for servers that are built without the official SDK. */
export interface CallDetails {
  /** The `_meta` of the request. */
  readonly meta?: unknown;
  /** The headers of the HTTP request; leave them out over stdio. */
  readonly headers?: CallHeaders | undefined;
  /** The JSON-RPC method; `tools/call` when only a name is given. */
  readonly method?: string | undefined;
  /** The tool, prompt or resource that is called. */
  readonly name?: string | undefined;
  /** The arguments as they came, before any schema filled in defaults. */
  readonly arguments?: unknown;
  readonly transport?: 'stdio' | 'http' | undefined;
}

/** The last argument of a handler in `@modelcontextprotocol/sdk` (v1), as far as it is needed here. */
export interface ExtraV1 {
  readonly signal: AbortSignal;
  readonly requestId: string | number;
  readonly sessionId?: string | undefined;
  readonly _meta?: unknown;
  readonly requestInfo?: { readonly headers: Readonly<Record<string, string | string[] | undefined>> } | undefined;
}

/** The last argument of a handler in `@modelcontextprotocol/server` (v2), as far as it is needed here. */
export interface ContextV2 {
  readonly sessionId?: string | undefined;
  readonly mcpReq: {
    readonly id: string | number;
    readonly method: string;
    readonly _meta?: unknown;
    readonly signal?: AbortSignal | undefined;
  };
  readonly http?: { readonly req?: { readonly headers: { get(name: string): string | null } } | undefined } | undefined;
}

export type CallSource = ExtraV1 | ContextV2 | CallDetails;

export interface IncomingCall {
  readonly meta: unknown;
  readonly headers: CallHeaders | undefined;
  readonly transport: 'stdio' | 'http';
  readonly method: string | undefined;
  readonly name: string | undefined;
  readonly arguments: unknown;
  /** An object that stays the same while this one message is handled. */
  readonly carrier: object | undefined;
  readonly id: string | number | undefined;
  /** Aborted when the client cancels the call. */
  readonly signal: AbortSignal | undefined;
}

/** The members of the request that are known besides the source. */
export type KnownCall = Pick<CallDetails, 'method' | 'name' | 'arguments' | 'transport'>;

const contextKey = 'ambit/context';

export function toIncomingCall(source: CallSource, known: KnownCall = {}): IncomingCall {
  const seen = isV2(source) ? readV2Call(source) : isV1(source) ? readV1Call(source) : readCallDetails(source);
  const name = known.name ?? seen.name;
  const context = readMetaContext(seen.meta);
  return {
    meta: seen.meta,
    headers: seen.headers,
    transport: known.transport ?? seen.transport,
    name,
    method: known.method ?? seen.method ?? (name === undefined ? undefined : 'tools/call'),
    arguments: 'arguments' in known ? known.arguments : seen.arguments,
    // An SDK may run a handler again for one message, with a new `ctx` around the same parsed values.
    carrier: seen.id !== undefined && isObject(context) ? context : seen.carrier,
    id: seen.id,
    signal: seen.signal,
  };
}

/** Reads `_meta["ambit/context"]`, in exactly this spelling. */
export function readMetaContext(meta: unknown): unknown {
  return isObject(meta) && Object.hasOwn(meta, contextKey) ? meta[contextKey] : undefined;
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isV2(source: CallSource): source is ContextV2 {
  return 'mcpReq' in source && isObject(source.mcpReq);
}

function isV1(source: CallSource): source is ExtraV1 {
  return 'signal' in source && 'requestId' in source;
}

type SeenCall = Pick<IncomingCall, 'meta' | 'headers' | 'transport'> & Partial<IncomingCall>;

function readV2Call({ mcpReq, http, sessionId }: ContextV2): SeenCall {
  const overHttp = http !== undefined || sessionId !== undefined;
  return {
    meta: mcpReq._meta,
    headers: http?.req?.headers,
    transport: overHttp ? 'http' : 'stdio',
    method: mcpReq.method,
    carrier: http?.req ?? mcpReq.signal,
    id: mcpReq.id,
    signal: mcpReq.signal,
  };
}

function readV1Call({ _meta, requestInfo, sessionId, requestId, signal }: ExtraV1): SeenCall {
  const overHttp = requestInfo !== undefined || sessionId !== undefined;
  return {
    meta: _meta,
    headers: requestInfo?.headers,
    transport: overHttp ? 'http' : 'stdio',
    carrier: requestInfo ?? signal,
    id: requestId,
    signal,
  };
}

/** Each description by the author is a call of its own, without a carrier. */
function readCallDetails(details: CallDetails): SeenCall {
  return {
    meta: details.meta,
    headers: details.headers,
    transport: details.transport ?? (details.headers === undefined ? 'stdio' : 'http'),
    method: details.method,
    name: details.name,
    arguments: details.arguments,
  };
}

/** The depth that Ambit allows in a message; a deeper one never came through Ambit. */
const maxDepth = 512;

/** Writes a parsed JSON value as RFC 8785 text. Throws if there is none: lone surrogates, infinities. */
export function toCanonicalText(value: unknown, depth = 0): string {
  if (depth > maxDepth) throw new RangeError('nested too deeply');
  if (typeof value === 'string') return quoteText(value);
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new RangeError('a number beyond what JSON can hold');
    return JSON.stringify(value);
  }
  if (value === null || typeof value === 'boolean') return String(value);
  if (Array.isArray(value)) return `[${value.map((item) => toCanonicalText(item, depth + 1)).join(',')}]`;
  if (typeof value !== 'object') throw new TypeError(`${typeof value} is not JSON`);
  const members = value as Readonly<Record<string, unknown>>;
  let text = '';
  // Sorted by UTF-16 code units, the default of sort(). Own keys only: "__proto__" may be one of them.
  for (const key of Object.keys(members).sort()) {
    text += `${text === '' ? '' : ','}${quoteText(key)}:${toCanonicalText(members[key], depth + 1)}`;
  }
  return `{${text}}`;
}

const plain = /^[ !#-[\]-~]{0,64}$/;

function quoteText(value: string): string {
  // A short text that needs no escape is faster without JSON.stringify.
  if (plain.test(value)) return `"${value}"`;
  if (/\p{Surrogate}/u.test(value)) throw new RangeError('a string that is not Unicode');
  return JSON.stringify(value);
}

/** The `argsSha256` of the token; undefined if the arguments have no canonical text. */
export function digestArguments(given: unknown): string | undefined {
  try {
    return hash('sha256', toCanonicalText(given === undefined ? {} : given), 'hex');
  } catch {
    return undefined;
  }
}
