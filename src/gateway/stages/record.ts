import type { Journal } from '../../journal/journal.ts';
import type { Log } from '../../log.ts';
import type { Reply } from '../../wire/channel.ts';
import { errorMessage } from '../../wire/compose.ts';
import { ProtocolFault } from '../../wire/protocol-fault.ts';
import { memberOf, stringAt } from '../../wire/scan.ts';
import type { Stage } from '../chain.ts';
import type { Arrived } from '../exchange.ts';
import { onLatestRecord } from '../on-latest-record.ts';
import { asAmbitError, refuse, untaken } from '../refusal.ts';

/** Outermost on the inward corridor, so that refusals are recorded too; it also gives every refusal its wire form. */
export function record(journal: Journal, log: Log): Stage<Arrived, Arrived, Reply> {
  return async function record(exchange, next) {
    const started = performance.now();
    let outcome = 'ok';
    let reply: Reply;
    try {
      reply = await onLatestRecord(exchange, next);
    } catch (error) {
      if (error instanceof ProtocolFault) {
        outcome = String(error.rpc);
        reply = protocolReply(exchange, error);
      } else {
        const refusal = asAmbitError(error);
        outcome = refusal.code;
        if (refusal.code === 'INTERNAL') log.warn(`unexpected failure: ${String((error as Error)?.stack ?? error)}`);
        if (refusal.rule !== undefined) exchange.entry.rule = refusal.rule;
        reply = refuse(exchange, refusal);
      }
    }
    const { message, entry } = exchange;
    const name = nameOf(exchange);
    journal.recordCall({
      id: exchange.correlationId,
      sessionId: entry.sessionId,
      userId: entry.userId,
      entrance: exchange.entrance,
      era: exchange.era,
      server: exchange.server,
      method: message.kind === 'response' ? '(response)' : message.method,
      name,
      outcome,
      rule: entry.rule,
      workspaceId: entry.workspaceId,
      ignoredWorkspace: entry.ignoredWorkspace,
      ms: Math.round((performance.now() - started) * 100) / 100,
      bytesIn: message.bytes.length,
      bytesOut: reply.kind === 'message' ? reply.bytes.length : 0,
    });
    return reply;
  };
}

function nameOf(exchange: Arrived): string | undefined {
  const { message } = exchange;
  const params = message.params?.shape;
  return stringAt(message.bytes, memberOf(params, 'name') ?? memberOf(params, 'uri'));
}

function protocolReply(exchange: Arrived, fault: ProtocolFault): Reply {
  const { id, kind } = exchange.message;
  if (id === undefined || kind !== 'request') {
    return untaken(exchange, errorMessage('null', fault.rpc, fault.message), fault.status);
  }
  return {
    kind: 'message',
    bytes: errorMessage(id, fault.rpc, fault.message, fault.data),
    status: fault.status,
  };
}
