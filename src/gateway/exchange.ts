import { randomUUID } from 'node:crypto';
import { computeClientId, maxInfoLength } from '../context/for-models/delivery-marks.ts';
import type { PresentedCredential, Principal } from '../identity/principal.ts';
import type { Channel, Era } from '../protocol/channel.ts';
import { readChosenSession } from '../protocol/client-selection.ts';
import type { Edit } from '../protocol/json/edit.ts';
import { findMember } from '../protocol/json/scan.ts';
import type { Message } from '../protocol/message.ts';
import { readTrace, type Trace, type TraceHeaders } from '../protocol/trace.ts';
import type { Session } from '../sessions/session.ts';
import type { ServerDefinition, Upstream } from '../upstreams/definition.ts';
import type { Caller } from '../upstreams/links/caller.ts';
import type { TrackedSession } from './session-activity.ts';

/** The address of all servers. No server can have this name. */
export const allServers = '*';

/** The fields that stages collect for the journal. The rest of an exchange is read-only. */
export interface JournalDraft {
  sessionId: string | undefined;
  userId: string | undefined;
  /** The API key of the request. */
  keyId: string | undefined;
  rule: string | undefined;
  /** The claims about the session that the rule is based on, as JSON text. */
  claims: string | undefined;
  /** True if a quota has counted the request or its server was found. Then it always has its own journal line. */
  admitted: boolean;
  /** The workspace, if the client has chosen it. */
  workspaceId: string | undefined;
  /** The workspace that the client announced and Ambit ignored. */
  ignoredWorkspace: string | undefined;
  /** The server that got the request, if it was sent to the address of all servers. */
  upstream: string | undefined;
  /** The server's own name of the tool or prompt, if the request was sent to the address of all servers. */
  upstreamName: string | undefined;
  /** The process that answered. */
  pid: number | undefined;
  /** The digest of the arguments in the signed context; null where the arguments have none. */
  argsSha256: string | null | undefined;
  /** The exchange whose result was returned from the cache. */
  cached: string | undefined;
  /** The activity of the session, if the request is a call of a tool that was admitted. */
  tracked: TrackedSession | undefined;
  /** The server and the time that it took, with the start of its process. */
  upstreamTiming: { readonly server: string; readonly from: number; readonly until: number } | undefined;
}

export function emptyJournalDraft(): JournalDraft {
  return {
    sessionId: undefined,
    userId: undefined,
    keyId: undefined,
    rule: undefined,
    claims: undefined,
    admitted: false,
    workspaceId: undefined,
    ignoredWorkspace: undefined,
    upstream: undefined,
    upstreamName: undefined,
    pid: undefined,
    argsSha256: undefined,
    cached: undefined,
    tracked: undefined,
    upstreamTiming: undefined,
  };
}

/**
 * Creates an exchange for an entrance. It has all members that the stages will add: an object that keeps one shape is
 * read and written much faster than one that grows.
 */
export function createExchange(options: ExchangeOptions): Exchange {
  return {
    entrance: options.entrance,
    era: options.era,
    server: options.server,
    credential: options.credential,
    transportId: options.transportId,
    headers: options.headers,
    correlationId: randomUUID(),
    trace: readTrace(options.message, options.traceHeaders),
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
  } as Exchange;
}

type ExchangeOptions = Omit<Exchange, 'listAsSession' | 'entry' | 'correlationId' | 'trace'> & {
  /** The trace headers of the request. */
  readonly traceHeaders?: TraceHeaders | undefined;
};

/** A request at an entrance: its address and its credential. */
export interface RequestBase {
  readonly entrance: 'http' | 'stdio';
  readonly era: Era;
  readonly server: string;
  readonly credential: PresentedCredential;
  /** The session id of MCP, only in the handshake era. It proves nothing. */
  readonly transportId: string | undefined;
  readonly entry: JournalDraft;
}

export interface Exchange extends RequestBase {
  /** The id of the exchange in the journal, in contexts and in logs. */
  readonly correlationId: string;
  /** The trace of the client, if it sent one. */
  readonly trace: Trace | undefined;
  readonly message: Message;
  readonly channel: Channel;
  /** Request headers that belong to the message (`Mcp-Param-*`), for upstreams over HTTP. */
  readonly headers: () => Readonly<Record<string, string>>;
  /** Called when a tool of Ambit's own begins to wait for other sessions. */
  readonly onWait?: (() => void) | undefined;
  /** A session of the user for which lists are made, without counting as use of it. */
  readonly listAsSession?: Session | undefined;
}

export type IdentifiedExchange<E extends RequestBase = RequestBase> = E & { readonly principal: Principal };
export type SessionExchange<E extends RequestBase = RequestBase> = IdentifiedExchange<E> & {
  readonly session: Session;
};
/** The exchange after `authorize`. `decidedAt` is the revision of configuration and approvals it used. */
export type DecidedExchange<E extends RequestBase = RequestBase> = SessionExchange<E> & { readonly decidedAt: number };
export type AuthorizedExchange<E extends RequestBase = RequestBase> = DecidedExchange<E> & {
  /** The server that the request is for. Undefined at the address of all servers, until `routeTool` has found it. */
  readonly upstream: Upstream | undefined;
  /** The servers that this session may use, in the order of the configuration. Only at the address of all servers. */
  readonly available: readonly ServerDefinition[];
};
/** The exchange after `bindTransport`. `caller` is the handshake-era client, except on initialize. */
type BoundExchange<E extends RequestBase = RequestBase> = AuthorizedExchange<E> & {
  readonly caller: Caller | undefined;
};
export type PreparedExchange = BoundExchange<Exchange> & {
  /**
   * The message for the server: the client's own or, at the address of all servers, one with the server's own names.
   */
  readonly outgoing: Message;
  /** The changes that are applied to `outgoing` when it is sent. */
  readonly edits: readonly Edit[];
};
/** An exchange with one server. */
export type ServerExchange = PreparedExchange & { readonly upstream: Upstream };

/** Wraps a channel to notice the messages that are sent before the answer. */
export function watchEmits(channel: Channel, onEmit: () => void): Channel {
  return {
    owner: channel.owner,
    emit(message) {
      onEmit();
      return channel.emit(message);
    },
    onDrain: (listener) => channel.onDrain(listener),
    isGone: () => channel.isGone(),
    isAway: () => channel.isAway?.() === true,
    onGone: (listener) => channel.onGone(listener),
    followForm: (isStream) => channel.followForm?.(isStream),
    suspend: (retryMs, onBack) => channel.suspend?.(retryMs, onBack),
    prime: () => channel.prime?.(),
    close: () => channel.close(),
  };
}

/** Tells whether a message calls a tool. A notification of that name calls nothing. */
export function isToolCall({ method, kind }: Message): boolean {
  return method === 'tools/call' && kind === 'request';
}

const clientInfoKey = 'io.modelcontextprotocol/clientInfo';

/** Reads what tells the client of a modern request from others. */
export function readClientId(exchange: Exchange, session: Session): string {
  const { message, credential } = exchange;
  const { principal } = exchange as Exchange & { readonly principal: Principal };
  const info = findMember(message.meta, clientInfoKey);
  return computeClientId(session, {
    credential: nameCredential(credential) ?? principal.userId,
    principal,
    hint: readChosenSession(message)?.hint,
    clientInfo: info && message.bytes.toString('latin1', info.start, Math.min(info.end, info.start + maxInfoLength)),
  });
}

/** Undefined where the credential of one client changes often, like a JWT. */
function nameCredential(credential: PresentedCredential): string | undefined {
  if (credential.kind !== 'bearer' || credential.presented.kind === undefined) return undefined;
  return credential.presented.digest;
}
