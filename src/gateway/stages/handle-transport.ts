import { AmbitError } from '../../errors.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import { createCallRefusal, type RefusalJournal } from '../../observability/journal/refusals.ts';
import type { Channel } from '../../protocol/channel.ts';
import { composeError, composeRequestRefusal } from '../../protocol/compose-message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import type { Session } from '../../sessions/session.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Exchange, RequestBase, SessionExchange } from '../exchange.ts';
import { asAmbitError } from '../refusal.ts';
import type { TransportStore } from '../sessions/transport-store.ts';
import type { AroundStage, Next } from '../stage.ts';
import { retryWhenStale } from './record.ts';

/** A request without a message: GET and DELETE of the handshake era, and the check before a batch. */
export interface TransportRequest extends RequestBase {
  readonly intent: 'stream' | 'resume' | 'goodbye' | 'batch';
  /** The channel for the stream. */
  readonly channel: Channel;
}

/** A request of a session, with or without a message. */
export type SessionRequest = SessionExchange<Exchange | TransportRequest>;

export type TransportResult =
  | { readonly kind: 'streaming' }
  /** The client may continue a stream that it has lost. The entrance knows the stream. */
  | { readonly kind: 'resuming'; readonly caller: Caller; readonly session: Session }
  | { readonly kind: 'gone' }
  /** The revision that this transport session negotiated: it decides how a batch is read. */
  | { readonly kind: 'known'; readonly version: string }
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly bytes: Buffer;
      readonly scopes?: readonly string[];
    };

/** Writes the journal line of a request without a message, and turns errors into its result. */
export function recordTransport(
  journal: Journal,
  refusals: RefusalJournal,
): AroundStage<TransportRequest, unknown, TransportResult> {
  return {
    name: 'recordTransport',
    refuses: ['SESSION_STALE', 'INTERNAL'],
    async around(request, next) {
      let outcome = 'ok';
      try {
        return await retryWhenStale(request, next);
      } catch (error) {
        if (error instanceof ProtocolError) {
          outcome = String(error.rpc);
          return { kind: 'refused', status: error.status, bytes: composeError('null', error.rpc, error.message) };
        }
        const refusal = asAmbitError(error);
        outcome = refusal.code;
        const { row, scopes } = refusal;
        const asked = scopes === undefined ? {} : { scopes };
        return { kind: 'refused', status: row.http, bytes: composeRequestRefusal('null', refusal), ...asked };
      } finally {
        const { entry, entrance } = request;
        if (outcome === 'ok' || refusals.admit(createCallRefusal(entry, entrance, outcome)))
          journal.record({
            kind: 'call',
            sessionId: entry.sessionId,
            userId: entry.userId,
            keyId: entry.keyId,
            entrance,
            era: request.era,
            server: request.server,
            method: `(${request.intent})`,
            outcome,
            rule: entry.rule,
            workspaceId: entry.workspaceId,
          });
      }
    },
  };
}

export function handleTransport(
  callers: Callers,
  transports: TransportStore,
  sessions: Pick<Sessions, 'end'>,
): Next<SessionExchange<TransportRequest> & { readonly caller: Caller | undefined }, TransportResult> {
  return async function handleTransport(request) {
    const { caller, channel } = request;
    if (caller === undefined) throw new AmbitError('REQUEST_INVALID');
    if (request.intent === 'goodbye') {
      // The stored copy is deleted first, so that the client cannot be restored.
      await transports.delete(caller);
      callers.end(caller);
      if (isOpenedByHandshake(request)) await sessions.end(request.session.id, 'closed');
      return { kind: 'gone' };
    }
    if (request.intent === 'batch') return { kind: 'known', version: caller.version };
    if (request.intent === 'resume') return { kind: 'resuming', caller, session: request.session };
    const before = caller.stream;
    // The client has lost this stream and does not continue it.
    if (before?.isAway?.() === true) before.close();
    // A second stream must not replace the first, because it could steal the messages of a session.
    else if (before?.isGone() === false) {
      throw new ProtocolError(-32000, 409, 'Conflict: this transport session already has a stream');
    }
    caller.stream = channel;
    channel.onGone(() => {
      if (caller.stream === channel) caller.stream = undefined;
    });
    caller.link.listen(caller);
    return { kind: 'streaming' };
  };
}

/** Tells whether the handshake opened the session for this client alone. Then it ends with the client. */
function isOpenedByHandshake({ principal, session }: SessionExchange<TransportRequest>): boolean {
  if (principal.kind !== 'user') return principal.kind === 'anonymous' && session.name === undefined;
  return session.name === undefined && session.keyId === principal.keyId;
}
