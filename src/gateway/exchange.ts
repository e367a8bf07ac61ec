import { randomUUID } from 'node:crypto';
import type { Credential, Principal } from '../identity/principal.ts';
import type { Channel, Era } from '../protocol/channel.ts';
import type { Edit } from '../protocol/json/edit.ts';
import type { Message } from '../protocol/message.ts';
import { type Trace, type TraceHeaders, traceOf } from '../protocol/trace.ts';
import type { Session } from '../sessions/session.ts';
import type { ServerDefinition, Upstream } from '../upstreams/definition.ts';
import type { Caller } from '../upstreams/links/caller.ts';

/** The address that stands for all servers; no server can have this name. */
export const allServers = '*';

/** What stages annotate for the journal; the rest of an exchange is read-only. */
export interface JournalDraft {
  sessionId: string | undefined;
  userId: string | undefined;
  /** The API key it came with. */
  keyId: string | undefined;
  rule: string | undefined;
  /** A quota has counted it, or it has found its server: it has a line of its own, whatever becomes of it. */
  admitted: boolean;
  /** The workspace, if the client has chosen it. */
  workspaceId: string | undefined;
  /** The workspace that the client announced and Ambit ignored. */
  ignoredWorkspace: string | undefined;
  /** The server it went to, where it was sent to all. */
  upstream: string | undefined;
  /** The process that served it. */
  pid: number | undefined;
  /** The exchange whose result was given again. */
  cached: string | undefined;
  /** Which server was asked, and how long it took; only where tracing is on. */
  upstreamTiming: { readonly server: string; readonly from: number; readonly until: number } | undefined;
}

export function emptyJournalDraft(): JournalDraft {
  return {
    sessionId: undefined,
    userId: undefined,
    keyId: undefined,
    rule: undefined,
    admitted: false,
    workspaceId: undefined,
    ignoredWorkspace: undefined,
    upstream: undefined,
    pid: undefined,
    cached: undefined,
    upstreamTiming: undefined,
  };
}

/**
 * An exchange as an entrance makes it. There is room in it for all that the stages will add: an object that keeps one
 * shape from the first stage to the last is read and written much faster than one that grows.
 */
export function createExchange(options: ExchangeOptions): Arrived {
  return {
    entrance: options.entrance,
    era: options.era,
    server: options.server,
    credential: options.credential,
    transportId: options.transportId,
    headers: options.headers,
    correlationId: randomUUID(),
    trace: traceOf(options.message, options.traceHeaders),
    message: options.message,
    channel: options.channel,
    entry: emptyJournalDraft(),
    principal: undefined,
    listAsSession: undefined,
    session: undefined,
    decidedAt: undefined,
    upstream: undefined,
    available: undefined,
    caller: undefined,
    edits: undefined,
    outgoing: undefined,
  } as Arrived;
}

type ExchangeOptions = Omit<Arrived, 'listAsSession' | 'entry' | 'correlationId' | 'trace'> & {
  /** What the request's own headers say of a trace. */
  readonly traceHeaders?: TraceHeaders | undefined;
};

/** A request as it comes in at an entrance: the address that it is for, and its credential. */
export interface RequestBase {
  readonly entrance: 'http' | 'stdio';
  readonly era: Era;
  readonly server: string;
  readonly credential: Credential;
  /** MCP's own session id, handshake era only. It never proves anything. */
  readonly transportId: string | undefined;
  readonly entry: JournalDraft;
}

export interface Arrived extends RequestBase {
  /** What this exchange is called wherever it is mentioned: journal, context, logs. */
  readonly correlationId: string;
  /** The trace it is part of, where the client says so. */
  readonly trace: Trace | undefined;
  readonly message: Message;
  readonly channel: Channel;
  /** Request headers that belong to the message (`Mcp-Param-*`), for upstreams over HTTP. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** A session of the user that is only looked through, to list what it could use. */
  readonly listAsSession?: Session | undefined;
}

export type IdentifiedExchange<E extends RequestBase = RequestBase> = E & { readonly principal: Principal };
export type SessionExchange<E extends RequestBase = RequestBase> = IdentifiedExchange<E> & {
  readonly session: Session;
};
/** `decidedAt` is the revision of configuration and approvals that the decisions about it rest on. */
export type DecidedExchange<E extends RequestBase = RequestBase> = SessionExchange<E> & { readonly decidedAt: number };
export type AuthorizedExchange<E extends RequestBase = RequestBase> = DecidedExchange<E> & {
  /** The server that the request is for. Undefined at the address of all servers, until `routeTool` has found it. */
  readonly upstream: Upstream | undefined;
  /** At the address of all servers: those that this session may use, in the order of the configuration. */
  readonly available: readonly ServerDefinition[];
};
/** `caller` is the handshake-era client behind the transport session; none on initialize and in the modern era. */
type BoundExchange<E extends RequestBase = RequestBase> = AuthorizedExchange<E> & {
  readonly caller: Caller | undefined;
};
export type Prepared = BoundExchange<Arrived> & {
  /** The message for the server: the client's own, or at the address of all servers one with the server's own names. */
  readonly outgoing: Message;
  /** The changes that are made to `outgoing` when it is sent. Everything else of it stays as it came. */
  readonly edits: readonly Edit[];
};
/** An exchange with one server. */
export type ServerExchange = Prepared & { readonly upstream: Upstream };

/** Only a call of a tool that is answered counts as one: as a notification, nothing is called. */
export function isToolCall({ method, kind }: Message): boolean {
  return method === 'tools/call' && kind === 'request';
}
