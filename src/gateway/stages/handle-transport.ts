import { AmbitError } from '../../errors.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import { type Refusals, refusedCall } from '../../observability/journal/refusals.ts';
import type { Channel } from '../../protocol/channel.ts';
import { errorMessage, refusedRequest } from '../../protocol/compose.ts';
import { ProtocolFault } from '../../protocol/protocol-fault.ts';
import type { Sessions } from '../../sessions/sessions.ts';
import type { Caller, Callers } from '../../upstreams/links/caller.ts';
import type { Approach, InSession } from '../exchange.ts';
import { asAmbitError } from '../refusal.ts';
import type { RememberedTransports } from '../sessions/transport-store.ts';
import type { AroundStage, Next } from '../stage.ts';
import { onLatestRecord } from './record.ts';

/** Someone at the door without a message: the handshake era's GET and DELETE, and whoever brings several at once. */
export interface Visit extends Approach {
  readonly intent: 'stream' | 'goodbye' | 'batch';
  /** Where the stream would go. */
  readonly channel: Channel;
}

export type Visited =
  | { readonly kind: 'streaming' }
  | { readonly kind: 'gone' }
  /** The revision that this transport session negotiated: it decides how a batch is read. */
  | { readonly kind: 'known'; readonly version: string }
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly bytes: Buffer;
      readonly scopes?: readonly string[];
    };

/** Writes the journal's line of a visit and gives its refusal the form on the wire. */
export function recordVisit(journal: Journal, refusals: Refusals): AroundStage<Visit, unknown, Visited> {
  return { name: 'recordVisit', refuses: ['SESSION_STALE', 'INTERNAL'], around: recorded };

  async function recorded<Here extends Visit>(visit: Here, next: Next<Here, Visited>): Promise<Visited> {
    let outcome = 'ok';
    try {
      return await onLatestRecord(visit, next);
    } catch (error) {
      if (error instanceof ProtocolFault) {
        outcome = String(error.rpc);
        return { kind: 'refused', status: error.status, bytes: errorMessage('null', error.rpc, error.message) };
      }
      const refusal = asAmbitError(error);
      outcome = refusal.code;
      const { scopes } = refusal;
      const asked = scopes === undefined ? {} : { scopes };
      return { kind: 'refused', status: refusal.row.http, bytes: refusedRequest('null', refusal), ...asked };
    } finally {
      const { entry, entrance } = visit;
      if (outcome === 'ok' || refusals.admit(refusedCall(entry, entrance, outcome)))
        journal.record({
          kind: 'call',
          sessionId: visit.entry.sessionId,
          userId: visit.entry.userId,
          keyId: visit.entry.keyId,
          entrance: visit.entrance,
          era: visit.era,
          server: visit.server,
          method: `(${visit.intent})`,
          outcome,
          rule: visit.entry.rule,
          workspaceId: visit.entry.workspaceId,
        });
    }
  }
}

export function welcome(
  callers: Callers,
  remembered: RememberedTransports,
  sessions: Pick<Sessions, 'end'>,
): Next<InSession<Visit> & { readonly caller: Caller | undefined }, Visited> {
  return async function welcome(visit) {
    const { caller, channel } = visit;
    if (caller === undefined) throw new AmbitError('REQUEST_INVALID');
    if (visit.intent === 'goodbye') {
      // First where it would come back from.
      await remembered.forget(caller);
      callers.end(caller);
      if (wasOpenedForIt(visit)) await sessions.end(visit.session.id, 'closed');
      return { kind: 'gone' };
    }
    if (visit.intent === 'batch') return { kind: 'known', version: caller.version };
    // A second stream must not take the first one's place: it would be a way to steal a session's messages.
    if (caller.stream !== undefined && !caller.stream.isGone()) {
      throw new ProtocolFault(-32000, 409, 'Conflict: this transport session already has a stream');
    }
    caller.stream = channel;
    channel.onGone(() => {
      if (caller.stream === channel) caller.stream = undefined;
    });
    caller.link.listen(caller);
    return { kind: 'streaming' };
  };
}

/** A session that a handshake opened for somebody who named none ends with that client: nobody else knows of it. */
function wasOpenedForIt({ principal, session }: InSession<Visit>): boolean {
  if (principal.kind !== 'user') return principal.kind === 'anonymous' && session.name === undefined;
  return session.name === undefined && session.keyId === principal.keyId;
}
