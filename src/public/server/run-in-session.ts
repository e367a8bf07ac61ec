import { AmbitError, isAmbitError } from '../../errors.ts';
import type { PartitionSession } from '../../gateway/cache/call-cache.ts';
import type { Log } from '../../observability/log/log.ts';
import type { QuotaScope } from '../../observability/metrics/metrics.ts';
import { createRefusalResult, formatRefusal } from '../../protocol/compose-message.ts';
import { type AcquiredGrant, StaleSessionError } from '../../sessions/grants.ts';
import { holdCall } from '../../sessions/held-call.ts';
import type { Session } from '../../sessions/session.ts';
import { isObject } from '../sdk/call.ts';
import { findRefusalReason, isSessionError, type SessionContext } from '../sdk/context.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';
import { type ContextOptions, createRefusedError, readCallContext } from '../sdk/with-session.ts';
import type { HandlerRequest, HandlerWrapper } from '../sdk/wrap-handlers.ts';
import {
  type ClientSelection,
  type Connection,
  noSelection,
  type SelectionReader,
  type ServerConnections,
} from './connections.ts';
import { explainMissingWorkspace, type PlacedSession, placeInWorkspace } from './declared-workspaces.ts';
import { gatewaySessions, type NamingContext } from './gateway-sessions.ts';
import { addPolicies, markError, readClientInfo } from './governance.ts';
import { toLibraryError } from './library-hints.ts';
import { createOwnContext, describeLife, type ResolvedSession } from './resolved-session.ts';
import type { OpenSessionLayer, RunningCall } from './session-layer.ts';
import { createSessionState } from './session-state.ts';
import type { SessionMetrics } from './settings.ts';
import { httpSessions } from './transport-sessions.ts';

export interface SessionRunOptions {
  readonly openLayer: () => Promise<OpenSessionLayer>;
  readonly context: ContextOptions;
  readonly selections: SelectionReader;
  readonly connections: ServerConnections;
  readonly metrics: Required<SessionMetrics>;
  readonly log: Log;
  /** False if the sessions end with their server: over HTTP a server is built for each request. */
  readonly servesHttp: boolean;
  readonly countsBytes: boolean;
  readonly hasPolicies: boolean;
  readonly offersTools: boolean;
}

type RunHandler = Parameters<HandlerWrapper>[1];

const maxTries = 16;
const maxLoggedName = 100;

/** The context of each call that reached its session, for its line in the log. */
const contexts = new WeakMap<HandlerRequest['call'], SessionContext>();

/** An admitted call with its session. */
interface AdmittedCall {
  readonly resolved: ResolvedSession;
  readonly grant: AcquiredGrant;
  readonly isCounted: boolean;
}

/** Lists are the same for everyone, so they open no session. */
const sessionlessMethods: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'subscriptions/listen',
]);

/** An error of the author's handler, which goes to the SDK as it is. */
class HandlerError extends Error {}

/** Wraps handlers: finds or opens the session of each call, admits the call, runs it and releases the session. */
export function wrapInSessions(options: SessionRunOptions): HandlerWrapper {
  const { metrics, log } = options;
  /** Tools of the author whose names are those of session tools, each logged once. */
  const hiddenTools = new Set<string>();

  return async (request, run) => {
    const startedAt = performance.now();
    let outcome = 'error';
    try {
      const result = await handleRequest(request, async (active) => {
        try {
          return await run(active);
        } catch (cause) {
          throw new HandlerError('', { cause });
        }
      });
      outcome = readOutcome(result);
      return result;
    } catch (error) {
      const cause = error instanceof HandlerError ? error.cause : error;
      if (isSessionError(cause)) {
        outcome = cause.code;
        throw cause;
      }
      if (error instanceof HandlerError && !isAmbitError(cause)) throw options.hasPolicies ? markError(cause) : cause;
      const refusal = toLibraryError(isAmbitError(cause) ? cause : new AmbitError('INTERNAL', { cause }));
      if (!isAmbitError(cause)) log.warn('call failed', { method: request.method, error: String(cause) });
      outcome = refusal.code;
      if (refusal.code === 'QUOTA_EXCEEDED') metrics.quotaRefused(readQuotaScope(refusal));
      if (request.method === 'tools/call') return createRefusalResult(refusal);
      throw toRpcError(refusal);
    } finally {
      const ms = performance.now() - startedAt;
      metrics.called(request.method, outcome, ms / 1000);
      const { method, call } = request;
      const known = contexts.get(call);
      const [session, correlation] = [known?.sessionId, known?.correlationId];
      const name = call.name?.slice(0, maxLoggedName);
      log.debug?.('call', { method, name, outcome, ms: Math.round(ms), session, correlation, user: known?.userId });
    }
  };

  async function handleRequest(request: HandlerRequest, run: RunHandler): Promise<unknown> {
    const context = await readCallContext(request.call, options.context);
    if (sessionlessMethods.has(request.method)) {
      const result = await runWith(request, context, run);
      return request.method === 'tools/list' ? await addOwnTools(request, context, result) : result;
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
    const theirs = result['tools'].filter((each) => {
      const name = isObject(each) ? String(each['name']) : '';
      if (!tools.has(name)) return true;
      if (!hiddenTools.has(name)) log.warn('tool is hidden by a session tool', { name });
      hiddenTools.add(name);
      return false;
    });
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
    const held = holdCall(layer.sessions, resolved.session, grant, isCounted);
    const running = layer.runningCalls.begin(resolved.session.id, request.call.signal);
    let bytes = 0;
    try {
      let current = await running.wait(placeCurrent(layer, resolved, selection.announced));
      // Placing may take long. The handler runs with the record that is current when it starts.
      for (let tries = 0; layer.sessions.get(resolved.session.id) !== current.session; tries++) {
        if (tries === maxTries) throw new AmbitError('SESSION_STALE');
        current = await running.wait(placeCurrent(layer, resolved, selection.announced));
      }
      const { session, placed } = current;
      if (isCounted) noteCall(layer, session.id, request);
      const now = options.context.now?.() ?? Date.now();
      const call = { request, resolved, selection, session, placed, connection, running, now };
      const result = await runPlaced(layer, { ...call, onWait: held.freePlace }, run);
      if (isCounted && options.countsBytes) bytes = measureJson(request.call.arguments) + measureJson(result);
      return result;
    } finally {
      running.finish();
      held.release(bytes);
      const hasLeft = connection?.isClosed === true && resolved.endsWithConnection === true;
      if (resolved.endsWithCall || hasLeft) await endSession(layer, resolved);
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
        if (resolved.endsWithCall) await endSession(layer, resolved);
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
    if (overHttp) return httpSessions(layer, request, selection, options.connections.of(request.server));
    if (!layer.settings.startedByAmbit) return layer.stdio.resolve(request.server);
    // Ambit may run one process for several sessions: one session here for all of them would mix their state.
    if (context.sessionId === undefined) {
      throw createRefusedError('The call has no context, and this process does not belong to a single session.');
    }
    return gatewaySessions(layer, context as NamingContext);
  }
}

function noteCall({ callCounts, team, tools }: OpenSessionLayer, sessionId: string, { call }: HandlerRequest): void {
  callCounts.add(sessionId);
  const { name = '' } = call;
  if (tools?.has(name) !== true) team?.noteTool(sessionId, name);
}

interface CurrentSession {
  readonly session: Session;
  readonly placed: PlacedSession | undefined;
}

/** Reads the current record of the session and puts it into its workspace, unless Ambit decides about workspaces. */
async function placeCurrent(
  layer: OpenSessionLayer,
  resolved: ResolvedSession,
  announced: string | undefined,
): Promise<CurrentSession> {
  const session = layer.sessions.get(resolved.session.id);
  if (session === undefined) throw new AmbitError('SESSION_ENDED');
  if (resolved.createContext !== undefined) return { session, placed: undefined };
  return { session, placed: await placeInWorkspace(layer, resolved, session, announced) };
}

async function endSession({ sessions }: OpenSessionLayer, { session }: ResolvedSession): Promise<void> {
  await sessions.end(session.id, 'closed').catch(() => false);
}

interface PlacedCall {
  readonly request: HandlerRequest;
  readonly resolved: ResolvedSession;
  readonly selection: ClientSelection;
  readonly session: Session;
  /** Undefined behind Ambit, which decides about workspaces itself. */
  readonly placed: PlacedSession | undefined;
  readonly connection: Connection | undefined;
  readonly running: RunningCall;
  /** The time of the call. */
  readonly now: number;
  /** Called when a session tool begins to wait. */
  readonly onWait: () => void;
}

/** Runs the handler, or a session tool, with the context of the call. */
async function runPlaced(layer: OpenSessionLayer, placedCall: PlacedCall, run: RunHandler): Promise<unknown> {
  const { request, resolved, session, placed, running, now, onWait } = placedCall;
  const { call, method } = request;
  const members = { state: createSessionState(layer.store, session.id), signal: running.signal };
  const record = describeLife(session, now);
  const context =
    placed === undefined
      ? (resolved.createContext as NonNullable<ResolvedSession['createContext']>)(members)
      : createOwnContext(placed.session, placed.path, { ...members, record });
  const active: ActiveCall = { call, context, ...(placed && { workspaces: placed.choices }) };
  contexts.set(call, context);
  const partition = toPartition(session.id, context, placed?.workspaceKey);
  layer.cache.offerTo(active, partition, readServerName(request.server));
  const isOwnTool = placed !== undefined && method === 'tools/call' && layer.tools?.has(call.name ?? '') === true;
  const runHandler = () =>
    isOwnTool ? callOwnTool(layer, request, resolved, placed, { context, running, onWait }) : run(active);
  const handled = await running.run(active, () => activeCall.run(active, runHandler));
  const governed =
    placed === undefined
      ? handled
      : await running.wait(addDuePolicies(layer, { ...placedCall, session: placed.session }, isOwnTool, handled));
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
  { context, running, onWait }: Pick<PlacedCall, 'running' | 'onWait'> & { readonly context: SessionContext },
): Promise<unknown> {
  if (layer.tools === undefined || principal === undefined) throw new AmbitError('INTERNAL');
  try {
    const caller = { session, principal, correlationId: context.correlationId, signal: running.signal, onWait };
    return await layer.tools.run(call.name ?? '', call.arguments, caller);
  } catch (error) {
    const explained = explainMissingWorkspace(error, choices, {
      key: layer.settings.announceKeys[0] ?? 'ambit',
      listsSessions: layer.tools.has('session_list'),
    });
    if (!isAmbitError(explained)) layer.log.warn('call failed', { method: 'tools/call', error: String(error) });
    const refusal = isAmbitError(explained) ? explained : new AmbitError('INTERNAL', { cause: error });
    return createRefusalResult(toLibraryError(refusal));
  }
}

/** Adds the policies that are due, and notes whether the answer with them is sent. */
async function addDuePolicies(
  { governance, tools }: OpenSessionLayer,
  { request, resolved, selection, session, connection }: PlacedCall,
  isOwnTool: boolean,
  handled: unknown,
): Promise<unknown> {
  if (governance === undefined || resolved.principal === undefined) return handled;
  const { call, method, extra } = request;
  const { principal, credential } = resolved;
  const transportId = typeof extra['sessionId'] === 'string' ? extra['sessionId'] : connection?.handshakeId;
  const client = { principal, credential, hint: selection.hint, clientInfo: readClientInfo(call.meta, extra) };
  const isExact = isOwnTool && tools?.isExact(call.name ?? '') === true;
  const governed = { method, session, transportId, client, isOwnTool, isExact };
  const { result, delivery } = await addPolicies(governance, governed, handled);
  if (delivery === undefined) return result;
  if (connection === undefined || call.id === undefined) delivery.delivered();
  else connection.watchAnswer(call.id, { cancelled: call.signal, gone: readRequestSignal(extra) }, delivery);
  return result;
}

/** The signal of the HTTP request, which version 2 of the SDK passes on. */
function readRequestSignal({ http }: HandlerRequest['extra']): AbortSignal | undefined {
  const request = isObject(http) ? http['req'] : undefined;
  return request instanceof Request ? request.signal : undefined;
}

/** A credential means a network, even if the transport shows nothing else of it. */
function isOverHttp({ call, extra }: HandlerRequest): boolean {
  return call.transport === 'http' || extra['authInfo'] !== undefined;
}

function toPartition(id: string, context: SessionContext, workspaceKey: string | undefined): PartitionSession {
  const { userId = id, workspaceId, trustLevel = 'sandboxed', permissions } = context;
  return { id, userId, workspaceId: workspaceKey ?? workspaceId, trustLevel, permissions };
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
