import { AmbitError, isAmbitError } from '../../errors.ts';
import { refusalText, refusedResult } from '../../protocol/compose.ts';
import { type Grant, StaleSession } from '../../sessions/grants.ts';
import type { Session } from '../../sessions/session.ts';
import { isObject } from '../sdk/call.ts';
import { refusedBecause, type SessionContext } from '../sdk/context.ts';
import { type Handling, store as handlings } from '../sdk/current-session.ts';
import { type ContextOptions, readCall } from '../sdk/read-context.ts';
import { refusedCall } from '../sdk/with-session.ts';
import type { Around, Visit } from '../sdk/wrap-handlers.ts';
import { behindAmbit, type NamingContext } from './gateway-sessions.ts';
import { withBlock } from './governance.ts';
import { aloneOverHttp } from './http-sessions.ts';
import type { Entrance } from './resolved-session.ts';
import type { OpenHouse } from './session-layer.ts';
import { stateOf } from './session-state.ts';

export interface AroundOptions {
  readonly house: () => Promise<OpenHouse>;
  readonly context: ContextOptions;
  /** False where the layer goes with its server, and servers over HTTP are built for each request. */
  readonly servesHttp: boolean;
  readonly countsBytes: boolean;
  readonly offersTools: boolean;
}

type Run = Parameters<Around>[1];

const mostTries = 16;

/** Puts each call into its session: found or opened, admitted, refreshed, and left again. */
export function aroundCalls(options: AroundOptions): Around {
  return async (visit, run) => {
    try {
      const context = await readCall(visit.call, options.context);
      // Lists are the same for everyone, and looking at them is no work: it opens no session.
      if (visit.method === 'tools/list') return await listed(visit, context, await handled(context));
      if (visit.method.endsWith('/list') || visit.method === 'subscriptions/listen') return await handled(context);
      const refused = refusedBecause(context);
      if (refused !== undefined) throw refusedCall(refused);
      return await inSession(await options.house(), visit, context, run);
    } catch (error) {
      if (!isAmbitError(error)) throw error;
      if (visit.method === 'tools/call') return refusedResult(error);
      throw refusedRequest(error);
    }

    function handled(context: SessionContext): Promise<unknown> {
      const handling: Handling = { call: visit.call, context };
      return handlings.run(handling, () => run(handling));
    }
  };

  async function listed(visit: Visit, said: SessionContext, result: unknown): Promise<unknown> {
    if (!options.offersTools || said.status === 'verified') return result;
    const { tools, settings } = await options.house();
    return tools === undefined || (!isOverHttp(visit) && settings.startedByAmbit) ? result : tools.listed(result);
  }

  async function inSession(house: OpenHouse, visit: Visit, said: SessionContext, run: Run): Promise<unknown> {
    const { entrance, grant, counted } = await admitted(house, visit, said);
    // Ended or narrowed at the very last moment: what holds is what is held now.
    const held = house.sessions.get(entrance.session.id);
    if (held === undefined) {
      grant.of.leave(grant, counted, 0);
      throw new AmbitError('SESSION_ENDED');
    }
    const session: Session = held;
    const context = entrance.context(session, stateOf(house.store, session.id));
    const handling: Handling = { call: visit.call, context };
    let bytes = 0;

    function handle(): Promise<unknown> {
      const { tools } = house;
      const { name, arguments: args } = visit.call;
      const offered = visit.method === 'tools/call' && entrance.reach !== undefined;
      return offered && tools?.has(name) ? tools.call(name, args, session, entrance.reach) : run(handling);
    }

    try {
      const handled = await house.underWay.run(session.id, handling, () => handlings.run(handling, handle));
      // Behind Ambit it is Ambit that tells them.
      const governed = visit.method === 'tools/call' && entrance.reach !== undefined ? house.governance : undefined;
      const result = governed === undefined ? handled : await withBlock(governed, session, handled);
      if (counted && options.countsBytes) bytes = sizeOf(visit.call.arguments) + sizeOf(result);
      return house.settings.includeMeta && visit.method === 'tools/call' ? withSession(result, context) : result;
    } finally {
      grant.of.leave(grant, counted, bytes);
    }
  }

  async function admitted(
    house: OpenHouse,
    visit: Visit,
    said: SessionContext,
  ): Promise<{ readonly entrance: Entrance; readonly grant: Grant; readonly counted: boolean }> {
    for (let tries = 0; tries < mostTries; tries++) {
      const entrance = await find(house, visit, said);
      const counted = entrance.counted && visit.method === 'tools/call';
      const { id, createdAt } = entrance.session;
      if (visit.method === 'tools/call') await house.governance?.arrived(id, createdAt);
      try {
        return { entrance, counted, grant: await house.sessions.enter(entrance.session, counted) };
      } catch (error) {
        if (error instanceof StaleSession) continue;
        if (!isGone(error)) throw error;
        if (!entrance.renews) throw (await entrance.gone?.()) ?? error;
      }
    }
    throw new AmbitError('SESSION_STALE');
  }

  function find(house: OpenHouse, visit: Visit, said: SessionContext): Promise<Entrance> {
    const overHttp = isOverHttp(visit);
    if (overHttp && !options.servesHttp) {
      throw new AmbitError('CONFIG_INVALID', {
        what: 'Over HTTP a server is built for each request, and these sessions would end with it.',
        hint: 'Its author makes them once with createServerSessions(), and gives that to withSessions().',
      });
    }
    if (said.status === 'verified') return behindAmbit(house, said);
    if (overHttp) return aloneOverHttp(house, visit);
    if (!house.settings.startedByAmbit) return house.stdio.enter(visit.server);
    // A process of Ambit's for several sessions: to put them into one of its own would mix them.
    if (said.sessionId === undefined) {
      throw refusedCall('The call carries no context, and this process serves no one session.');
    }
    return behindAmbit(house, said as NamingContext);
  }
}

/** A credential comes over a network, whatever else its transport does not show. */
function isOverHttp({ call, extra }: Visit): boolean {
  return call.transport === 'http' || extra['authInfo'] !== undefined;
}

function isGone(error: unknown): boolean {
  return isAmbitError(error) && (error.code === 'SESSION_EXPIRED' || error.code === 'SESSION_ENDED');
}

function sizeOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value) ?? '');
}

function withSession(result: unknown, { sessionId, correlationId }: SessionContext): unknown {
  if (!isObject(result)) return result;
  const meta = isObject(result['_meta']) ? result['_meta'] : {};
  return { ...result, _meta: { ...meta, 'ambit/session': { sessionId, correlationId } } };
}

/** What is not the call of a tool is refused with a JSON-RPC error: the SDK takes code and data from what is thrown. */
function refusedRequest(error: AmbitError): Error {
  const data = refusedResult(error)._meta['ambit/error'];
  return Object.assign(new Error(refusalText(error), { cause: error }), { code: error.row.rpc, data });
}
