import { AmbitError, isAmbitError } from '../../errors.ts';
import { createRefusalResult, formatRefusal } from '../../protocol/compose-message.ts';
import { type Grant, StaleSessionError } from '../../sessions/grants.ts';
import { isObject } from '../sdk/call.ts';
import { findRefusalReason, type SessionContext } from '../sdk/context.ts';
import { type ActiveCall, activeCall } from '../sdk/current-session.ts';
import { type ContextOptions, readCallContext } from '../sdk/read-context.ts';
import { createRefusedError } from '../sdk/with-session.ts';
import type { HandlerRequest, HandlerWrapper } from '../sdk/wrap-handlers.ts';
import { gatewaySessions, type NamingContext } from './gateway-sessions.ts';
import { prependBlock } from './governance.ts';
import { httpSessions } from './http-sessions.ts';
import type { ResolvedSession } from './resolved-session.ts';
import type { OpenSessionLayer } from './session-layer.ts';
import { createSessionState } from './session-state.ts';

export interface SessionRunOptions {
  readonly openLayer: () => Promise<OpenSessionLayer>;
  readonly context: ContextOptions;
  /** False if the sessions end with their server: over HTTP a server is built for each request. */
  readonly servesHttp: boolean;
  readonly countsBytes: boolean;
  readonly offersTools: boolean;
}

type RunHandler = Parameters<HandlerWrapper>[1];

const maxTries = 16;

/** Wraps handlers: finds or opens the session of each call, admits the call, runs it and releases the session. */
export function wrapInSessions(options: SessionRunOptions): HandlerWrapper {
  return async (request, run) => {
    try {
      const context = await readCallContext(request.call, options.context);
      // Lists are the same for everyone, so they open no session.
      if (request.method === 'tools/list') return await addOwnTools(request, context, await runWith(context));
      if (request.method.endsWith('/list') || request.method === 'subscriptions/listen') return await runWith(context);
      const refused = findRefusalReason(context);
      if (refused !== undefined) throw createRefusedError(refused);
      return await runInSession(await options.openLayer(), request, context, run);
    } catch (error) {
      if (!isAmbitError(error)) throw error;
      if (request.method === 'tools/call') return createRefusalResult(error);
      throw toRpcError(error);
    }

    function runWith(context: SessionContext): Promise<unknown> {
      const active: ActiveCall = { call: request.call, context };
      return activeCall.run(active, () => run(active));
    }
  };

  async function addOwnTools(request: HandlerRequest, context: SessionContext, result: unknown): Promise<unknown> {
    if (!options.offersTools || context.status === 'verified') return result;
    const { tools, settings } = await options.openLayer();
    return tools === undefined || (!isOverHttp(request) && settings.startedByAmbit) ? result : tools.addToList(result);
  }

  async function runInSession(
    layer: OpenSessionLayer,
    request: HandlerRequest,
    sent: SessionContext,
    run: RunHandler,
  ): Promise<unknown> {
    const { resolved, grant, isCounted } = await admitCall(layer, request, sent);
    // The session may have ended or been restricted while the call was admitted: its current state counts.
    const session = layer.sessions.get(resolved.session.id);
    if (session === undefined) {
      grant.owner.release(grant, isCounted, 0);
      throw new AmbitError('SESSION_ENDED');
    }
    const context = resolved.createContext(session, createSessionState(layer.store, session.id));
    const active: ActiveCall = { call: request.call, context };
    let bytes = 0;

    const runHandler = (): Promise<unknown> => {
      const { tools } = layer;
      const { name, arguments: args } = request.call;
      const offered = request.method === 'tools/call' && resolved.toolScope !== undefined;
      return offered && tools?.has(name) ? tools.call(name, args, session, resolved.toolScope) : run(active);
    };

    try {
      const handled = await layer.runningCalls.run(session.id, active, () => activeCall.run(active, runHandler));
      // Behind Ambit, Ambit adds the block itself.
      const governed =
        request.method === 'tools/call' && resolved.toolScope !== undefined ? layer.governance : undefined;
      const result = governed === undefined ? handled : await prependBlock(governed, session, handled);
      if (isCounted && options.countsBytes) bytes = measureJson(request.call.arguments) + measureJson(result);
      return layer.settings.includeMeta && request.method === 'tools/call' ? addSessionMeta(result, context) : result;
    } finally {
      grant.owner.release(grant, isCounted, bytes);
    }
  }

  async function admitCall(
    layer: OpenSessionLayer,
    request: HandlerRequest,
    context: SessionContext,
  ): Promise<{ readonly resolved: ResolvedSession; readonly grant: Grant; readonly isCounted: boolean }> {
    for (let tries = 0; tries < maxTries; tries++) {
      const resolved = await resolveSession(layer, request, context);
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
  ): Promise<ResolvedSession> {
    const overHttp = isOverHttp(request);
    if (overHttp && !options.servesHttp) {
      throw new AmbitError('CONFIG_INVALID', {
        what: 'Over HTTP a new server object is created for each request, and its sessions would end with the request.',
        hint: 'The author of the server must call createServerSessions() once and pass the result to withSessions().',
      });
    }
    if (context.status === 'verified') return gatewaySessions(layer, context);
    if (overHttp) return httpSessions(layer, request);
    if (!layer.settings.startedByAmbit) return layer.stdio.resolve(request.server);
    // Ambit may run one process for several sessions: one session here for all of them would mix their state.
    if (context.sessionId === undefined) {
      throw createRefusedError('The call has no context, and this process does not belong to a single session.');
    }
    return gatewaySessions(layer, context as NamingContext);
  }
}

/** A credential means a network, even if the transport shows nothing else of it. */
function isOverHttp({ call, extra }: HandlerRequest): boolean {
  return call.transport === 'http' || extra['authInfo'] !== undefined;
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
