import { randomUUID } from 'node:crypto';
import { argumentsDigest, noArgumentsDigest } from '../../../context/for-tools/arguments-digest.ts';
import type { CallContext, ContextWriter } from '../../../context/for-tools/call-context.ts';
import type { Principal } from '../../../identity/principal.ts';
import { insertMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits } from '../../../protocol/json/edit.ts';
import { memberOf, rawAt } from '../../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../../protocol/message.ts';
import type { Trace } from '../../../protocol/trace.ts';
import type { Session } from '../../../sessions/session.ts';

/** Whom a request acts for, and what it is called wherever it is mentioned. */
export interface Acting {
  readonly session: Session;
  /** Who made the request; undefined for what Ambit asks by itself. */
  readonly principal?: Principal | undefined;
  readonly correlationId: string;
  readonly trace?: Trace | undefined;
  /**
   * The session as it is now, where the request may still be made; throws where it may not. Asked in the moment the
   * request goes out: it may have waited for a server to start, and meanwhile something was taken from its session.
   */
  readonly confirm?: (() => Session) | undefined;
  /** Where it is noted which process serves it. */
  readonly entry?: { pid: number | undefined } | undefined;
}

/** Tells an upstream, request by request, whom it serves. */
export interface ContextAttacher {
  /** Over stdio there are no headers: a trace that came in one goes on in `_meta`. */
  readonly tracesInMeta: boolean;
  /** `session` is the one that is told of, where it is not the one the request came with. */
  createContext(message: Message, name: string, acting: Acting | undefined, session?: Session): CallContext | undefined;
  /** For what Ambit asks by itself: the params with the context in them. */
  attachToParams(method: string, params: string): { readonly params: string; readonly token: string | undefined };
}

/**
 * `own` is the session that a connection belongs to, as it is now; one that several sessions share belongs to none,
 * and then Ambit's own questions act for nobody. `toldNothing` hears of each request of a session that goes without.
 */
export function createContextAttacher(
  writer: ContextWriter | undefined,
  own: () => Session | undefined,
  { tracesInMeta = false, toldNothing: onNoContext = () => {} } = {},
): ContextAttacher {
  function createContext(
    message: Message,
    name: string,
    acting: Acting | undefined,
    now = acting?.session,
  ): CallContext | undefined {
    if (writer === undefined) {
      if (acting !== undefined) onNoContext();
      return undefined;
    }
    const session = now ?? own();
    if (session === undefined) return undefined;
    const given = memberOf(message.params?.shape, 'arguments');
    const argsSha256 =
      given === undefined ? noArgumentsDigest : argumentsDigest(message.bytes.subarray(given.start, given.end));
    const correlationId = acting?.correlationId ?? randomUUID();
    return writer.write(session, correlationId, { method: message.method, name, argsSha256 });
  }

  return {
    tracesInMeta,
    createContext,
    attachToParams(method, params) {
      const question = Buffer.from(`{"jsonrpc":"2.0","id":0,"method":${JSON.stringify(method)},"params":${params}}`);
      const message = readMessage(question);
      const context = createContext(message, '', undefined);
      if (context === undefined) return { params, token: undefined };
      const told = readMessage(applyEdits(question, [insertMeta(message, context.member)]));
      return { params: told.params === undefined ? params : rawAt(told.bytes, told.params), token: context.token };
    },
  };
}

/** For connections on which nobody is told anything. */
export const noContext: ContextAttacher = {
  tracesInMeta: false,
  createContext: () => undefined,
  attachToParams: (_method, params) => ({ params, token: undefined }),
};
