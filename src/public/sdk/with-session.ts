import { type Call, type CallSource, callOf, isObject } from './call.ts';
import { refusedBecause } from './context.ts';
import { type Handling, store } from './current-session.ts';
import { type ContextOptions, readCall } from './read-context.ts';
import { type ErrorResult, isSessionError, SessionError, toErrorResult } from './session-error.ts';
import { type SecurableServer, wrapHandlers } from './wrap-handlers.ts';

export interface HandlerOptions extends ContextOptions {
  /** A call whose token was refused is answered with the reason, unless this says `run`: then its context is absent. */
  readonly onRefused?: 'refuse' | 'run' | undefined;
}

/**
 * A tool's handler inside the context of its call. It compares what the token is bound to with the arguments the handler
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
    const call = callOf(extra as CallSource, {
      method: 'tools/call',
      name,
      arguments: given.length > 1 ? given[0] : undefined,
      transport: options.transport,
    });
    try {
      return await handle(call, options, async () => await handler(...given));
    } catch (error) {
      if (isSessionError(error)) return toErrorResult(error);
      throw error;
    }
  };
}

/**
 * Runs what handles a call inside its context, or throws where that context was refused. Where another wrapper has read
 * it already, from better sources, its word holds.
 */
export async function handle<R>(
  call: Call,
  options: HandlerOptions,
  run: (handling: Handling) => Promise<R>,
): Promise<R> {
  const around = store.getStore();
  if (around?.call.carrier !== undefined && around.call.carrier === call.carrier) return run(around);
  const context = await readCall(call, options);
  const refused = refusedBecause(context);
  if (refused !== undefined && options.onRefused !== 'run') throw refusedCall(refused);
  const handling: Handling = { call, context };
  return store.run(handling, () => run(handling));
}

/** A token was sent and does not hold. */
export function refusedCall(reason: string): SessionError {
  const hint = 'Nothing was done. Call again; if it goes on, tell the person who runs this server.';
  return new SessionError('CONTEXT_REFUSED', reason, hint);
}

/**
 * Makes every handler that is registered from now on run inside the context of its call, as the request came and
 * before any schema touched it. Call it right after the server was made.
 */
export function secureServer<S extends SecurableServer>(server: S, options: HandlerOptions = {}): S {
  const wrapping = { by: 'secureServer', transport: options.transport };
  return wrapHandlers(server, wrapping, ({ call, method }, run) => {
    // Lists are answered even so: a client that cannot see the tools cannot be told what is wrong with its calls.
    const onRefused = method.endsWith('/list') ? 'run' : options.onRefused;
    return handle(call, { ...options, onRefused }, run);
  });
}
