import { type CallSource, type IncomingCall, isObject, toIncomingCall } from './call.ts';
import { isSessionError, toErrorResult } from './context.ts';
import type { ActiveCall } from './current-session.ts';

interface Registrar {
  setRequestHandler: (...given: never[]) => unknown;
  assertCanSetRequestHandler?: (method: string) => void;
}

/** `McpServer` or `Server` of the official SDK, v1 or v2. */
export type SecurableServer = Registrar | { readonly server: Registrar };

/** A request as its wrapper sees it, before its handler. */
export interface HandlerRequest {
  readonly call: IncomingCall;
  readonly method: string;
  /** The identity of the server: one object per server that was built. */
  readonly server: object;
  /** The handler's last argument, as the SDK made it. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** Runs a handler inside a context, or throws. */
export type HandlerWrapper = (
  request: HandlerRequest,
  run: (active: ActiveCall) => Promise<unknown>,
) => Promise<unknown>;

type Handler = (request: unknown, extra: unknown) => unknown;

export interface WrapOptions {
  /** The name of the public function, for the error when it is called too late. */
  readonly calledAs: string;
  readonly transport: 'stdio' | 'http' | undefined;
}

/** Requests about the connection, which need no session. */
const unwrapped = new Set(['initialize', 'ping', 'server/discover', 'logging/setLevel']);

/** Wraps every handler that is registered from now on; the wrapper sees the request before any schema changed it. */
export function wrapHandlers<S extends SecurableServer>(server: S, options: WrapOptions, wrapper: HandlerWrapper): S {
  const registrar = ('server' in server ? server.server : server) as Registrar;
  assertNotRegistered(registrar, options.calledAs);
  const register = registrar.setRequestHandler.bind(registrar) as (...given: unknown[]) => unknown;
  // v1: (schema, handler); v2: (method, handler) or (method, schemas, handler).
  registrar.setRequestHandler = ((...given: unknown[]) => {
    const handler = given.at(-1);
    if (typeof handler !== 'function') return register(...given);
    const named = typeof given[0] === 'string' ? given[0] : undefined;
    if (named !== undefined && unwrapped.has(named)) return register(...given);
    const inner = { server: registrar, handler: handler as Handler, named, paramsOnly: given.length > 2 };
    return register(...given.slice(0, -1), wrapHandler(inner, options, wrapper));
  }) as Registrar['setRequestHandler'];
  return server;
}

function assertNotRegistered(registrar: Registrar, calledAs: string): void {
  for (const method of ['tools/call', 'resources/read', 'prompts/get']) {
    try {
      registrar.assertCanSetRequestHandler?.(method);
    } catch (cause) {
      const what = `${calledAs}() comes too late: ${method} is handled already. Call it before anything is registered.`;
      throw new Error(what, { cause });
    }
  }
}

interface RegisteredHandler {
  readonly server: object;
  readonly handler: Handler;
  readonly named: string | undefined;
  readonly paramsOnly: boolean;
}

function wrapHandler(
  { server, handler, named, paramsOnly }: RegisteredHandler,
  options: WrapOptions,
  wrapper: HandlerWrapper,
): Handler {
  return async (request, extra) => {
    const method = named ?? (request as { method: string }).method;
    if (unwrapped.has(method) || !isObject(extra)) return handler(request, extra);
    const params = paramsOnly ? request : (request as { params?: unknown }).params;
    const { name, uri, arguments: given } = (isObject(params) ? params : {}) as Record<string, unknown>;
    // The name of a resource is its address, whatever else its request contains.
    const called = typeof name === 'string' && !method.startsWith('resources/') ? name : uri;
    const call = toIncomingCall(extra as unknown as CallSource, {
      method,
      name: typeof called === 'string' ? called : undefined,
      arguments: given,
      transport: options.transport,
    });
    try {
      return await wrapper({ call, method, server, extra }, async (active) =>
        addErrorCode(await handler(request, extra), active),
      );
    } catch (error) {
      if (method === 'tools/call' && isSessionError(error)) return toErrorResult(error);
      throw error;
    }
  };
}

/** Adds the error code to a result: the SDK turns a thrown error into a result and keeps only its message. */
function addErrorCode(result: unknown, { refusal }: ActiveCall): unknown {
  if (refusal === undefined || !isObject(result) || result['isError'] !== true) return result;
  const [block] = Array.isArray(result['content']) ? result['content'] : [];
  if (!isObject(block) || block['text'] !== refusal.message) return result;
  return {
    ...result,
    _meta: { ...(isObject(result['_meta']) ? result['_meta'] : {}), ...toErrorResult(refusal)._meta },
  };
}
