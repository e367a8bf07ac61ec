import { AmbitError, isAmbitError } from '../../errors.ts';
import type { QuotaScope } from '../../observability/metrics/metrics.ts';
import { createRefusalResult, formatRefusal } from '../../protocol/compose-message.ts';
import { type Grant, StaleSessionError } from '../../sessions/grants.ts';
import type { Session } from '../../sessions/session.ts';
import { isObject } from '../sdk/call.ts';
import { findRefusalReason, type SessionContext } from '../sdk/context.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';
import { type ContextOptions, readCallContext } from '../sdk/read-context.ts';
import { createRefusedError } from '../sdk/with-session.ts';
import type { HandlerRequest, HandlerWrapper } from '../sdk/wrap-handlers.ts';
import { type ClientSelection, noSelection, type SelectionReader } from './client-selection.ts';
import type { Connection, ServerConnections } from './connections.ts';
import { gatewaySessions, type NamingContext } from './gateway-sessions.ts';
import { addPolicies } from './governance.ts';
import { httpSessions } from './http-sessions.ts';
import { toLibraryError } from './library-hints.ts';
import type { SessionMetrics } from './options.ts';
import { explainMissingWorkspace, type PlacedSession, placeInWorkspace } from './place-in-workspace.ts';
import { createOwnContext, describeLife, type ResolvedSession } from './resolved-session.ts';
import type { OpenSessionLayer } from './session-layer.ts';
import { createSessionState } from './session-state.ts';

export interface SessionRunOptions {
  readonly openLayer: () => Promise<OpenSessionLayer>;
  readonly context: ContextOptions;
  readonly selections: SelectionReader;
  readonly connections: ServerConnections;
  readonly metrics: SessionMetrics | undefined;
  /** False if the sessions end with their server: over HTTP a server is built for each request. */
  readonly servesHttp: boolean;
  readonly countsBytes: boolean;
  readonly offersTools: boolean;
}

type RunHandler = Parameters<HandlerWrapper>[1];

const maxTries = 16;

/** An admitted call with its session. */
interface AdmittedCall {
  readonly resolved: ResolvedSession;
  readonly grant: Grant;
  readonly isCounted: boolean;
}

/** Wraps handlers: finds or opens the session of each call, admits the call, runs it and releases the session. */
export function wrapInSessions(options: SessionRunOptions): HandlerWrapper {
  const { metrics } = options;

  return async (request, run) => {
    const startedAt = performance.now();
    let outcome = 'error';
    try {
      const result = await handleRequest(request, run);
      outcome = readOutcome(result);
      return result;
    } catch (error) {
      if (!isAmbitError(error)) throw error;
      outcome = error.code;
      if (error.code === 'QUOTA_EXCEEDED') metrics?.quotaRefused?.(readQuotaScope(error));
      const refusal = toLibraryError(error);
      if (request.method === 'tools/call') return createRefusalResult(refusal);
      throw toRpcError(refusal);
    } finally {
      metrics?.called?.(request.method, outcome, (performance.now() - startedAt) / 1000);
    }
  };

  async function handleRequest(request: HandlerRequest, run: RunHandler): Promise<unknown> {
    const context = await readCallContext(request.call, options.context);
    // Lists are the same for everyone, so they open no session.
    if (request.method === 'tools/list') {
      return await addOwnTools(request, context, await runWith(request, context, run));
    }
    if (request.method.endsWith('/list') || request.method === 'subscriptions/listen') {
      return await runWith(request, context, run);
    }
    const refused = findRefusalReason(context);
    if (refused !== undefined) throw createRefusedError(refused);
    return await runInSession(await options.openLayer(), request, context, run);
  }

  async function addOwnTools(request: HandlerRequest, context: SessionContext, result: unknown): Promise<unknown> {
    if (!options.offersTools || context.status === 'verified') return result;
    const { tools, settings } = await options.openLayer();
    const isBehindAmbit = !isOverHttp(request) && settings.startedByAmbit;
    if (tools === undefined || isBehindAmbit || !isObject(result) || !Array.isArray(result['tools'])) return result;
    const theirs = result['tools'].filter((each) => !(isObject(each) && tools.has(String(each['name']))));
    return { ...result, tools: result['nextCursor'] === undefined ? [...theirs, ...tools.list()] : theirs };
  }

  async function runInSession(
    layer: OpenSessionLayer,
    request: HandlerRequest,
    sent: SessionContext,
    run: RunHandler,
  ): Promise<unknown> {
    const connection = options.connections.of(request.server);
    if (connection?.isClosed) throw new AmbitError('SESSION_ENDED', { what: 'The connection was closed.' });
    // Behind Ambit, its gateway has read what the client selects.
    const selection = sent.status === 'verified' ? noSelection : options.selections.read(request, connection);
    const { resolved, grant, isCounted } = await admitCall(layer, request, sent, selection);
    let bytes = 0;
    try {
      // The session may have ended or been restricted while the call was admitted: its current state counts.
      const session = layer.sessions.get(resolved.session.id);
      if (session === undefined) throw new AmbitError('SESSION_ENDED');
      if (isCounted) layer.callCounts.add(session.id);
      const placed =
        resolved.createContext === undefined
          ? await placeInWorkspace(layer, resolved, session, selection.announced)
          : undefined;
      const now = options.context.now?.() ?? Date.now();
      const result = await runPlaced(layer, { request, resolved, session, placed, connection, now }, run);
      if (isCounted && options.countsBytes) bytes = measureJson(request.call.arguments) + measureJson(result);
      return result;
    } finally {
      grant.owner.release(grant, isCounted, bytes);
      const hasLeft = connection?.isClosed === true && resolved.endsWithConnection === true;
      if (resolved.endsWithCall || hasLeft) await layer.sessions.end(resolved.session.id, 'closed').catch(() => false);
    }
  }

  async function admitCall(
    layer: OpenSessionLayer,
    request: HandlerRequest,
    context: SessionContext,
    selection: ClientSelection,
  ): Promise<AdmittedCall> {
    for (let tries = 0; tries < maxTries; tries++) {
      const resolved = await resolveSession(layer, request, context, selection);
      const isCounted = resolved.isCounted && request.method === 'tools/call';
      const { id, createdAt } = resolved.session;
      if (request.method === 'tools/call') await layer.governance?.touch(id, createdAt);
      try {
        return { resolved, isCounted, grant: await layer.sessions.acquire(resolved.session, isCounted) };
      } catch (error) {
        if (error instanceof StaleSessionError) continue;
        if (!isAmbitError(error) || (error.code !== 'SESSION_EXPIRED' && error.code !== 'SESSION_ENDED')) throw error;
        if (!resolved.isRenewable) throw (await resolved.explainGone?.()) ?? error;
      }
    }
    throw new AmbitError('SESSION_STALE');
  }

  function resolveSession(
    layer: OpenSessionLayer,
    request: HandlerRequest,
    context: SessionContext,
    selection: ClientSelection,
  ): Promise<ResolvedSession> {
    const overHttp = isOverHttp(request);
    if (overHttp && !options.servesHttp) {
      throw new AmbitError('CONFIG_INVALID', {
        what: 'Over HTTP a new server object is created for each request, and its sessions would end with the request.',
        hint: 'The author of the server must call createServerSessions() once and pass the result to withSessions().',
      });
    }
    if (context.status === 'verified') return gatewaySessions(layer, context);
    if (overHttp) return httpSessions(layer, request, selection);
    if (!layer.settings.startedByAmbit) return layer.stdio.resolve(request.server);
    // Ambit may run one process for several sessions: one session here for all of them would mix their state.
    if (context.sessionId === undefined) {
      throw createRefusedError('The call has no context, and this process does not belong to a single session.');
    }
    return gatewaySessions(layer, context as NamingContext);
  }
}

interface PlacedCall {
  readonly request: HandlerRequest;
  readonly resolved: ResolvedSession;
  readonly session: Session;
  /** Undefined behind Ambit, which decides about workspaces itself. */
  readonly placed: PlacedSession | undefined;
  readonly connection: Connection | undefined;
  /** The time of the call. */
  readonly now: number;
}

/** Runs the handler, or a session tool, with the context of the call. */
async function runPlaced(
  layer: OpenSessionLayer,
  { request, resolved, session, placed, connection, now }: PlacedCall,
  run: RunHandler,
): Promise<unknown> {
  const { call, method } = request;
  const running = layer.runningCalls.begin(session.id, call.signal);
  const members = { state: createSessionState(layer.store, session.id), signal: running.signal };
  const record = describeLife(session, now);
  const context =
    placed === undefined
      ? (resolved.createContext as NonNullable<ResolvedSession['createContext']>)(members)
      : createOwnContext(placed.session, placed.path, { ...members, record });
  const active: ActiveCall = { call, context, ...(placed && { workspaces: placed.choices }) };
  layer.cache.offerTo(active, toPartition(session.id, context), readServerName(request.server));
  const isOwnTool = placed !== undefined && method === 'tools/call' && layer.tools?.has(call.name ?? '') === true;
  const runHandler = () => (isOwnTool ? callOwnTool(layer, request, resolved, placed, context) : run(active));
  const handled = await running.run(active, () => activeCall.run(active, runHandler));
  layer.log.debug?.('call', {
    session: session.id,
    correlation: context.correlationId,
    method,
    tool: call.name?.slice(0, 100),
    outcome: readOutcome(handled),
  });
  const governed =
    placed === undefined || (method !== 'tools/call' && method !== 'prompts/get')
      ? handled
      : await addDuePolicies(layer, { request, session: placed.session, connection, isOwnTool }, handled);
  return layer.settings.includeMeta && method === 'tools/call' ? addSessionMeta(governed, context) : governed;
}

function runWith(request: HandlerRequest, context: SessionContext, run: RunHandler): Promise<unknown> {
  const active: ActiveCall = { call: request.call, context };
  return activeCall.run(active, () => run(active));
}

async function callOwnTool(
  layer: OpenSessionLayer,
  { call }: HandlerRequest,
  { principal }: ResolvedSession,
  { session, choices }: PlacedSession,
  { correlationId }: SessionContext,
): Promise<unknown> {
  if (layer.tools === undefined || principal === undefined) throw new AmbitError('INTERNAL');
  try {
    return await layer.tools.run(call.name ?? '', call.arguments, { session, principal, correlationId });
  } catch (error) {
    const explained = explainMissingWorkspace(error, choices, layer.settings.announceKeys[0] ?? 'ambit');
    const refusal = isAmbitError(explained) ? explained : new AmbitError('INTERNAL', { cause: error });
    return createRefusalResult(toLibraryError(refusal));
  }
}

/** Adds the policies that are due, and notes whether the answer with them is sent. */
async function addDuePolicies(
  { governance }: OpenSessionLayer,
  {
    request,
    session,
    connection,
    isOwnTool,
  }: Pick<PlacedCall, 'request' | 'session' | 'connection'> & { readonly isOwnTool: boolean },
  handled: unknown,
): Promise<unknown> {
  if (governance === undefined) return handled;
  const { call, method, extra } = request;
  const transportId = typeof extra['sessionId'] === 'string' ? extra['sessionId'] : connection?.handshakeId;
  const { result, delivery } = await addPolicies(governance, { method, session, transportId, isOwnTool }, handled);
  if (delivery === undefined) return result;
  if (connection === undefined || call.id === undefined) delivery.delivered();
  else connection.watchAnswer(call.id, call.signal, delivery);
  return result;
}

/** A credential means a network, even if the transport shows nothing else of it. */
function isOverHttp({ call, extra }: HandlerRequest): boolean {
  return call.transport === 'http' || extra['authInfo'] !== undefined;
}

function toPartition(id: string, { userId, workspaceId, trustLevel, permissions }: SessionContext) {
  return { id, userId: userId ?? id, workspaceId, trustLevel: trustLevel ?? ('sandboxed' as const), permissions };
}

/** The name of the server, which the SDK does not show. Without it, servers with the same tools share cached results. */
function readServerName(server: object): string {
  const info = (server as { readonly _serverInfo?: unknown })._serverInfo;
  return isObject(info) ? String(info['name']) : '';
}

/** The outcome of a result: `ok`, the code of a refusal, or `error` for an error of the tool itself. */
function readOutcome(result: unknown): string {
  if (!isObject(result) || result['isError'] !== true) return 'ok';
  const meta = isObject(result['_meta']) ? result['_meta']['ambit/error'] : undefined;
  return isObject(meta) ? String(meta['code']) : 'error';
}

function readQuotaScope({ rule }: AmbitError): QuotaScope {
  const scope = rule?.split('.')[1];
  return scope === 'user' || scope === 'workspace' ? scope : 'session';
}

function measureJson(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}

function addSessionMeta(result: unknown, { sessionId, correlationId }: SessionContext): unknown {
  if (!isObject(result)) return result;
  const meta = isObject(result['_meta']) ? result['_meta'] : {};
  return { ...result, _meta: { ...meta, 'ambit/session': { sessionId, correlationId } } };
}

/** Requests other than tool calls are refused with a JSON-RPC error: the SDK takes code and data from the thrown error. */
function toRpcError(error: AmbitError): Error {
  const data = createRefusalResult(error)._meta['ambit/error'];
  return Object.assign(new Error(formatRefusal(error), { cause: error }), { code: error.row.rpc, data });
}
