import { randomUUID } from 'node:crypto';
import { computeArgumentsDigest, noArgumentsDigest } from '../../../context/for-tools/arguments-digest.ts';
import type { CallContext, ContextWriter } from '../../../context/for-tools/call-context.ts';
import type { ContextKey } from '../../../context/for-tools/context-key.ts';
import type { Principal } from '../../../identity/principal.ts';
import { insertMeta } from '../../../protocol/insert-meta.ts';
import { applyEdits } from '../../../protocol/json/edit.ts';
import { findMember, readRawValue } from '../../../protocol/json/scan.ts';
import { type Message, readMessage } from '../../../protocol/message.ts';
import type { Trace } from '../../../protocol/trace.ts';
import type { Session } from '../../../sessions/session.ts';

/** The session that a request acts for, and the ids of the request. */
export interface RequestActor {
  readonly session: Session;
  /** The principal of the request; undefined for requests of Ambit's own. */
  readonly principal?: Principal | undefined;
  readonly correlationId: string;
  readonly trace?: Trace | undefined;
  /**
   * Reads the session as it is now; throws when the request may no longer be made. Called when the request is sent: it
   * may have waited for a server to start, and its session may have been restricted meanwhile.
   */
  readonly recheck?: (() => Session) | undefined;
  /** The journal entry, which gets the id of the process and the digest of the arguments. */
  readonly entry?: { pid: number | undefined; argsSha256: string | null | undefined } | undefined;
  /** Called when a tool of Ambit's own begins to wait for other sessions. */
  readonly onWait?: (() => void) | undefined;
}

/** Attaches to each request the context of the session it acts for. */
export interface ContextAttacher {
  /** True over stdio, which has no headers: a trace from a header goes on in `_meta`. */
  readonly tracesInMeta: boolean;
  /**
   * Creates the context of a request. `session` replaces the one that the request came with. `key` is that of the
   * process that gets the request; undefined where the context is signed publicly.
   */
  createContext(
    message: Message,
    name: string,
    acting: RequestActor | undefined,
    session?: Session,
    key?: ContextKey | undefined,
  ): CallContext | undefined;
  /** Adds the context to the params of a request of Ambit's own. */
  attachToParams(
    method: string,
    params: string,
    key?: ContextKey | undefined,
  ): { readonly params: string; readonly token: string | undefined };
}

/**
 * `own` reads the session of the link as it is now. A shared link has none, and Ambit's own requests act for nobody.
 * `onNoContext` is called for each request of a session that goes without a context.
 */
export function createContextAttacher(
  writer: ContextWriter | undefined,
  own: () => Session | undefined,
  { tracesInMeta = false, onNoContext = () => {} } = {},
): ContextAttacher {
  function createContext(
    message: Message,
    name: string,
    acting: RequestActor | undefined,
    now = acting?.session,
    key?: ContextKey | undefined,
  ): CallContext | undefined {
    if (writer === undefined) {
      if (acting !== undefined) onNoContext();
      return undefined;
    }
    const session = now ?? own();
    if (session === undefined) return undefined;
    const given = findMember(message.params?.shape, 'arguments');
    const argsSha256 =
      given === undefined ? noArgumentsDigest : computeArgumentsDigest(message.bytes.subarray(given.start, given.end));
    if (acting?.entry !== undefined) acting.entry.argsSha256 = argsSha256 ?? null;
    const correlationId = acting?.correlationId ?? randomUUID();
    return writer.write(session, correlationId, { method: message.method, name, argsSha256 }, key);
  }

  return {
    tracesInMeta,
    createContext,
    attachToParams(method, params, key) {
      const question = Buffer.from(`{"jsonrpc":"2.0","id":0,"method":${JSON.stringify(method)},"params":${params}}`);
      const message = readMessage(question);
      const context = createContext(message, '', undefined, undefined, key);
      if (context === undefined) return { params, token: undefined };
      const attached = readMessage(
        applyEdits(question, [insertMeta(message, context.memberStart + context.memberEnd)]),
      );
      return {
        params: attached.params === undefined ? params : readRawValue(attached.bytes, attached.params),
        token: context.token,
      };
    },
  };
}

/** The attacher of links that send no context. */
export const noContext: ContextAttacher = {
  tracesInMeta: false,
  createContext: () => undefined,
  attachToParams: (_method, params) => ({ params, token: undefined }),
};
