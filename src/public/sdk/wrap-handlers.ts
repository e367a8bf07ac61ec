import { type Call, type CallSource, callOf, isObject } from './call.ts';
import type { Handling } from './current-session.ts';
import { isSessionError, toErrorResult } from './session-error.ts';

interface Registrar {
  setRequestHandler: (...given: never[]) => unknown;
  assertCanSetRequestHandler?: (method: string) => void;
}

/** `McpServer` or `Server` of the official SDK, v1 or v2. */
export type SecurableServer = Registrar | { readonly server: Registrar };

/** A request on its way to its handler. */
export interface Visit {
  readonly call: Call;
  readonly method: string;
  /** One object for each server that was built. */
  readonly server: object;
  /** The handler's last argument, as the SDK made it. */
  readonly extra: Readonly<Record<string, unknown>>;
}

/** What stands around each handler: it runs it inside a context, or throws. */
export type Around = (visit: Visit, run: (handling: Handling) => Promise<unknown>) => Promise<unknown>;

type Handler = (request: unknown, extra: unknown) => unknown;

export interface WrapOptions {
  /** The function's name, for whoever calls it too late. */
  readonly by: string;
  readonly transport: 'stdio' | 'http' | undefined;
}

/** How a connection is made has no session yet, or none that matters. */
const unwrapped = new Set(['initialize', 'ping', 'server/discover', 'logging/setLevel']);

/** Every handler that is registered from now on, with something around it that sees the request as it came. */
export function wrapHandlers<S extends SecurableServer>(server: S, options: WrapOptions, around: Around): S {
  const registrar = ('server' in server ? server.server : server) as Registrar;
  for (const method of ['tools/call', 'resources/read', 'prompts/get']) assertUnset(registrar, method, options.by);
  const register = registrar.setRequestHandler.bind(registrar) as (...given: unknown[]) => unknown;
  // v1: (schema, handler); v2: (method, handler) or (method, schemas, handler).
  registrar.setRequestHandler = ((...given: unknown[]) => {
    const handler = given.at(-1);
    if (typeof handler !== 'function') return register(...given);
    const named = typeof given[0] === 'string' ? given[0] : undefined;
    if (named !== undefined && unwrapped.has(named)) return register(...given);
    const inner = { server: registrar, handler: handler as Handler, named, paramsOnly: given.length > 2 };
    return register(...given.slice(0, -1), wrapped(inner, options, around));
  }) as Registrar['setRequestHandler'];
  return server;
}

function assertUnset(registrar: Registrar, method: string, by: string): void {
  try {
    registrar.assertCanSetRequestHandler?.(method);
  } catch (cause) {
    throw new Error(`${by}() comes too late: ${method} is handled already. Call it before anything is registered.`, {
      cause,
    });
  }
}

interface Inner {
  readonly server: object;
  readonly handler: Handler;
  readonly named: string | undefined;
  readonly paramsOnly: boolean;
}

function wrapped({ server, handler, named, paramsOnly }: Inner, options: WrapOptions, around: Around): Handler {
  return async (request, extra) => {
    const method = named ?? (request as { method: string }).method;
    if (unwrapped.has(method) || !isObject(extra)) return handler(request, extra);
    const params = paramsOnly ? request : (request as { params?: unknown }).params;
    const { name, uri, arguments: given } = (isObject(params) ? params : {}) as Record<string, unknown>;
    // A resource is its address, whatever else its request says.
    const called = typeof name === 'string' && !method.startsWith('resources/') ? name : uri;
    const call = callOf(extra as unknown as CallSource, {
      method,
      name: typeof called === 'string' ? called : undefined,
      arguments: given,
      transport: options.transport,
    });
    try {
      return await around({ call, method, server, extra }, async (handling) =>
        withCode(await handler(request, extra), handling),
      );
    } catch (error) {
      if (method === 'tools/call' && isSessionError(error)) return toErrorResult(error);
      throw error;
    }
  };
}

/** The SDK makes a result of whatever a tool throws, and keeps only its words. */
function withCode(result: unknown, { refusal }: Handling): unknown {
  if (refusal === undefined || !isObject(result) || result['isError'] !== true) return result;
  const [block] = Array.isArray(result['content']) ? result['content'] : [];
  if (!isObject(block) || block['text'] !== refusal.message) return result;
  return {
    ...result,
    _meta: { ...(isObject(result['_meta']) ? result['_meta'] : {}), ...toErrorResult(refusal)._meta },
  };
}
