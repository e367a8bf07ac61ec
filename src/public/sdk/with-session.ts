import { type CallSource, type IncomingCall, isObject, toIncomingCall } from './call.ts';
import { findRefusalReason } from './context.ts';
import { type ActiveCall, activeCall } from './current-session.ts';
import { type ContextOptions, readCallContext } from './read-context.ts';
import { type ErrorResult, isSessionError, SessionError, toErrorResult } from './session-error.ts';
import { type SecurableServer, wrapHandlers } from './wrap-handlers.ts';

export interface HandlerOptions extends ContextOptions {
  /** `run` runs a call whose token was refused, with an absent context. By default it is answered with the reason. */
  readonly onRefused?: 'refuse' | 'run' | undefined;
}

/**
 * Runs a tool's handler inside the context of its call. It compares the token with the arguments that the handler
 * receives, so the tool's schema must neither fill in defaults nor drop members; `secureServer()` has no such limit.
 */
export function withSession<A extends unknown[], R>(
  name: string,
  handler: (...given: A) => R | Promise<R>,
  options: HandlerOptions = {},
): (...given: A) => Promise<R | ErrorResult> {
  return async (...given) => {
    const extra = given.at(-1);
    if (!isObject(extra)) throw new TypeError(`The handler of "${name}" was called without the SDK's last argument.`);
    const call = toIncomingCall(extra as CallSource, {
      method: 'tools/call',
      name,
      arguments: given.length > 1 ? given[0] : undefined,
      transport: options.transport,
    });
    try {
      return await runInContext(call, options, async () => await handler(...given));
    } catch (error) {
      if (isSessionError(error)) return toErrorResult(error);
      throw error;
    }
  };
}

/**
 * Runs the handler of a call inside its context, or throws if the context was refused. A context that an outer wrapper
 * has read already is used as it is: the outer wrapper saw the request before any schema changed it.
 */
async function runInContext<R>(
  call: IncomingCall,
  options: HandlerOptions,
  run: (active: ActiveCall) => Promise<R>,
): Promise<R> {
  const outer = activeCall.getStore();
  if (outer?.call.carrier !== undefined && outer.call.carrier === call.carrier) return run(outer);
  const context = await readCallContext(call, options);
  const refused = findRefusalReason(context);
  if (refused !== undefined && options.onRefused !== 'run') throw createRefusedError(refused);
  const active: ActiveCall = { call, context };
  return activeCall.run(active, () => run(active));
}

/** The error for a token that was sent and is not valid. */
export function createRefusedError(reason: string): SessionError {
  const hint = 'Nothing was done. Try again. If it keeps failing, tell the person who runs this server.';
  return new SessionError('CONTEXT_REFUSED', reason, hint);
}

/**
 * Makes every handler run inside the context of its call, read from the request before any schema changed it. It covers
 * handlers that are registered later, so call it right after the server was created.
 */
export function secureServer<S extends SecurableServer>(server: S, options: HandlerOptions = {}): S {
  const wrapping = { calledAs: 'secureServer', transport: options.transport };
  return wrapHandlers(server, wrapping, ({ call, method }, run) => {
    // Lists are always answered: a client that sees no tools would never learn what is wrong with its calls.
    return runInContext(call, { ...options, onRefused: method.endsWith('/list') ? 'run' : options.onRefused }, run);
  });
}
