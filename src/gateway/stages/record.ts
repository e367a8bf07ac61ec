import { computeArgumentsDigest, noArgumentsDigest } from '../../context/for-tools/arguments-digest.ts';
import { AmbitError } from '../../errors.ts';
import type { Journal } from '../../observability/journal/journal.ts';
import { createCallRefusal, type RefusalJournal } from '../../observability/journal/refusals.ts';
import type { Log } from '../../observability/log/log.ts';
import type { Metrics, QuotaScope } from '../../observability/metrics/metrics.ts';
import type { Tracer } from '../../observability/traces/tracer.ts';
import type { AnsweredFailure, FinalReply } from '../../protocol/channel.ts';
import { composeError } from '../../protocol/compose-message.ts';
import { insertResultMeta } from '../../protocol/insert-meta.ts';
import { applyEdits } from '../../protocol/json/edit.ts';
import { findMember, readStringValue } from '../../protocol/json/scan.ts';
import { findFailure, readErrorCode, readMessage } from '../../protocol/message.ts';
import { ProtocolError } from '../../protocol/protocol-error.ts';
import { StaleSessionError } from '../../sessions/grants.ts';
import { readToolName } from '../../upstreams/access/tool-access.ts';
import { joinNames } from '../../upstreams/catalog/list-entries.ts';
import { type Exchange, isToolCall } from '../exchange.ts';
import { asAmbitError, createRefusal, rejectNotification } from '../refusal.ts';
import { ownServer } from '../routing/own-server.ts';
import type { ActivityTracker } from '../session-activity.ts';
import { type AroundStage, addToExchange, type Next } from '../stage.ts';

const maxTries = 5;
const sessionKey = 'ambit/session';

/** The digest of longer arguments is recorded only if the signed context contains it. */
const maxDigestBytes = 65_536;

/** Longer replies are not parsed to look for an error. */
const maxErrorBytes = 65_536;

export interface RecordOptions {
  readonly journal: Journal;
  readonly refusals: RefusalJournal;
  readonly log: Log;
  readonly metrics: Metrics;
  /** True if results tell the client the session. */
  readonly includeMeta: () => boolean;
  /** Hears of each call of a server's tool that was not refused. */
  readonly noteTool: (sessionId: string, name: string) => void;
  readonly sessionActivity: Pick<ActivityTracker, 'count'>;
  /** Undefined without tracing. */
  readonly tracer: Tracer | undefined;
}

/** Writes the journal line, metrics and spans of every request, and turns every error into a reply. */
export function record(options: RecordOptions): AroundStage<Exchange, unknown, FinalReply> {
  const { journal, refusals, log, metrics, sessionActivity, tracer } = options;
  /** Requests that were admitted have a line each. Lines of other refusals are limited, because no quota limits those. */
  const hasLine = ({ entry, entrance }: Exchange, refusal: string | undefined) =>
    refusal === undefined || entry.admitted || refusals.admit(createCallRefusal(entry, entrance, refusal));
  return {
    name: 'record',
    refuses: ['SESSION_STALE', 'INTERNAL'],
    async around(exchange, next) {
      const started = performance.now();
      let refusedFor: string | undefined;
      const { kind } = exchange.message;
      // An answer to a push belongs to the exchange that was asked.
      const tracing = kind === 'response' ? undefined : tracer;
      if (tracing !== undefined) addToExchange(exchange, { trace: tracing.begin(exchange.trace, kind === 'request') });
      let reply: FinalReply;
      try {
        reply = await retryWhenStale(exchange, next);
      } catch (error) {
        if (error instanceof ProtocolError) {
          refusedFor = String(error.rpc);
          reply = createProtocolReply(exchange, error);
        } else {
          const refusal = asAmbitError(error);
          refusedFor = refusal.code;
          if (refusal.code === 'INTERNAL') warnUnexpected(log, exchange, error);
          if (refusal.code === 'QUOTA_EXCEEDED') metrics.quotaRefused(readQuotaScope(refusal));
          noteRule(exchange, refusal);
          reply = createRefusal(exchange, refusal);
        }
      }
      const { message, entry, trace } = exchange;
      const outcome = refusedFor ?? findFailedAnswer(exchange, reply) ?? 'ok';
      if (entry.sessionId !== undefined && options.includeMeta()) {
        reply = addSessionMeta(reply, entry.sessionId, exchange.correlationId);
      }
      const name = readSubject(exchange);
      const method = message.kind === 'response' ? '(response)' : message.method;
      const took = performance.now() - started;
      metrics.called(entry.upstream ?? exchange.server, method, outcome, took / 1000, entry.sessionId);
      if (isToolCall(message)) {
        if (refusedFor === undefined) noteToolOf(exchange, options);
        sessionActivity.count(entry, outcome !== 'ok', refusedFor === 'QUOTA_EXCEEDED');
      }
      const timing = entry.upstreamTiming;
      if (hasLine(exchange, refusedFor))
        journal.recordCall({
          id: exchange.correlationId,
          sessionId: entry.sessionId,
          userId: entry.userId,
          keyId: entry.keyId,
          entrance: exchange.entrance,
          era: exchange.era,
          server: entry.upstream ?? exchange.server,
          method,
          name,
          outcome,
          rule: entry.rule,
          claims: entry.claims,
          argsSha256: findArgumentsDigest(exchange),
          workspaceId: entry.workspaceId,
          ignoredWorkspace: entry.ignoredWorkspace,
          cached: entry.cached,
          traceId: trace?.traceId,
          spanId: trace?.spanId,
          pid: entry.pid,
          ms: roundMs(took),
          upstreamMs: timing === undefined ? undefined : roundMs(timing.until - timing.from),
          bytesIn: message.bytes.length,
          bytesOut: reply.kind === 'message' ? reply.bytes.length : 0,
        });
      if (tracing !== undefined) endSpans(tracing, exchange, { method, name, refusedFor, reply, from: started, took });
      log.debug?.('call', {
        server: entry.upstream ?? exchange.server,
        method,
        name,
        outcome,
        rule: entry.rule,
        ms: Math.round(took),
        pid: entry.pid,
        ...logNames(exchange),
      });
      return reply;
    },
  };
}

const roundMs = (ms: number): number => Math.round(ms * 100) / 100;

/** Notes the rule of a refusal. What another rule was based on before does not belong to it. */
function noteRule({ entry }: Exchange, { rule }: AmbitError): void {
  if (rule === undefined) return;
  if (rule !== entry.rule) entry.claims = undefined;
  entry.rule = rule;
}

/** Finds the digest of the arguments of a tool call; undefined where they have none, or are long and were not sent. */
function findArgumentsDigest({ message, entry }: Exchange): string | undefined {
  if (!isToolCall(message)) return undefined;
  if (entry.argsSha256 !== undefined) return entry.argsSha256 ?? undefined;
  const given = findMember(message.params?.shape, 'arguments');
  if (given === undefined) return noArgumentsDigest;
  if (given.end - given.start > maxDigestBytes) return undefined;
  return computeArgumentsDigest(message.bytes.subarray(given.start, given.end));
}

/** Notes the tool of a server. Nobody looks for sessions by Ambit's own tools. */
function noteToolOf({ server: address, message, entry }: Exchange, { noteTool }: RecordOptions): void {
  const server = entry.upstream ?? address;
  if (entry.sessionId === undefined || server === ownServer) return;
  noteTool(entry.sessionId, joinNames(server, entry.upstreamName ?? readToolName(message) ?? ''));
}

interface EndedCall {
  readonly method: string;
  readonly name: string | undefined;
  readonly refusedFor: string | undefined;
  readonly reply: FinalReply;
  readonly from: number;
  readonly took: number;
}

function endSpans(tracer: Tracer, exchange: Exchange, ended: EndedCall): void {
  const { method, name, refusedFor, reply, from, took } = ended;
  const { trace, entry, message, entrance, correlationId } = exchange;
  if (trace?.sampled !== true) return;
  tracer.end({
    trace,
    entrance,
    server: exchange.server,
    method,
    name,
    requestId: message.id,
    sessionId: entry.sessionId,
    correlationId,
    rule: entry.rule,
    cached: entry.cached !== undefined,
    errorType: refusedFor ?? findErrorType(reply),
    from,
    until: from + took,
    upstream: entry.upstreamTiming,
    upstreamName: entry.upstreamName,
  });
}

/** Reads the scope of a quota from the rule of its refusal. */
function readQuotaScope({ rule = '' }: AmbitError): QuotaScope {
  const scope = rule.split('.')[1];
  return scope === 'user' || scope === 'workspace' ? scope : 'session';
}

/** The ids that connect the log lines of one exchange. */
function logNames({ entry, correlationId, trace }: Exchange) {
  return { session: entry.sessionId, user: entry.userId, correlation: correlationId, trace: trace?.traceId };
}

function warnUnexpected(log: Log, exchange: Exchange, error: unknown): void {
  log.warn('unexpected failure', { ...logNames(exchange), error: String((error as Error)?.stack ?? error) });
}

/** Reads what a request is about. A tool or prompt at the address of all servers has the form of rules. */
function readSubject({ message, entry }: Exchange): string | undefined {
  if (entry.upstream !== undefined && entry.upstreamName !== undefined)
    return joinNames(entry.upstream, entry.upstreamName);
  const params = message.params?.shape;
  return readStringValue(message.bytes, findMember(params, 'name') ?? findMember(params, 'uri'));
}

function createProtocolReply(exchange: Exchange, fault: ProtocolError): FinalReply {
  const { id, kind } = exchange.message;
  if (id === undefined || kind !== 'request') {
    return rejectNotification(exchange, composeError('null', fault.rpc, fault.message), fault.status);
  }
  return {
    kind: 'message',
    bytes: composeError(id, fault.rpc, fault.message, fault.data),
    status: fault.status,
  };
}

/** Returns the error type of a reply by OpenTelemetry's conventions; undefined for a result. */
function findErrorType(reply: FinalReply): string | undefined {
  if (reply.kind !== 'message' || reply.bytes.length > maxErrorBytes) return undefined;
  const message = readMessage(reply.bytes);
  if (message.error !== undefined) return readErrorCode(message)?.slice(0, 16) ?? '_OTHER';
  return findFailure(message) === undefined ? undefined : 'tool_error';
}

/** Finds the failure that a server reported. The result of a task is put together from several answers. */
function findFailedAnswer({ message }: Exchange, reply: FinalReply): AnsweredFailure | undefined {
  if (reply.kind !== 'message') return undefined;
  if (reply.failure !== undefined) return reply.failure;
  const isReadable = message.method === 'tasks/result' && reply.bytes.length <= maxErrorBytes;
  return isReadable ? findFailure(readMessage(reply.bytes)) : undefined;
}

/** Adds the ids of the session and the exchange to the `_meta` of a result. */
function addSessionMeta(reply: FinalReply, sessionId: string, correlationId: string): FinalReply {
  if (reply.kind !== 'message') return reply;
  const facts = JSON.stringify({ sessionId, correlationId });
  const edit = insertResultMeta(readMessage(reply.bytes), `"${sessionKey}":${facts}`);
  return edit === undefined ? reply : { ...reply, bytes: applyEdits(reply.bytes, [edit]) };
}

/** Repeats the stages on the latest record if the session was changed or unloaded meanwhile. */
export async function retryWhenStale<Here, Out>(exchange: Here, next: Next<Here, Out>): Promise<Out> {
  for (let tries = 1; ; tries++) {
    try {
      return await next(exchange);
    } catch (error) {
      if (!(error instanceof StaleSessionError)) throw error;
      if (tries === maxTries) throw new AmbitError('SESSION_STALE');
    }
  }
}
