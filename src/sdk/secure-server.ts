import { type CallSource, callOf, isObject } from './call.ts';
import type { Handling } from './current-session.ts';
import { isSessionError, toErrorResult } from './session-error.ts';
import { type HandlerOptions, handle } from './with-session.ts';

interface Registrar {
  setRequestHandler: (...given: never[]) => unknown;
  assertCanSetRequestHandler?: (method: string) => void;
}

/** `McpServer` or `Server` of the official SDK, v1 or v2. */
export type SecurableServer = Registrar | { readonly server: Registrar };

type Handler = (request: unknown, extra: unknown) => unknown;

/** How a connection is made has no session yet, or none that matters. */
const unwrapped = new Set(['initialize', 'ping', 'server/discover', 'logging/setLevel']);

/**
 * Makes every handler that is registered from now on run inside the context of its call, as the request came and
 * before any schema touched it. Call it right after the server was made.
 */
export function secureServer<S extends SecurableServer>(server: S, options: HandlerOptions = {}): S {
  const registrar = ('server' in server ? server.server : server) as Registrar;
  for (const method of ['tools/call', 'resources/read', 'prompts/get']) assertUnset(registrar, method);
  const register = registrar.setRequestHandler.bind(registrar) as (...given: unknown[]) => unknown;
  // v1: (schema, handler); v2: (method, handler) or (method, schemas, handler).
  registrar.setRequestHandler = ((...given: unknown[]) => {
    const handler = given.at(-1);
    if (typeof handler !== 'function') return register(...given);
    const named = typeof given[0] === 'string' ? given[0] : undefined;
    if (named !== undefined && unwrapped.has(named)) return register(...given);
    return register(...given.slice(0, -1), wrapped(handler as Handler, named, given.length > 2, options));
  }) as Registrar['setRequestHandler'];
  return server;
}

function assertUnset(registrar: Registrar, method: string): void {
  try {
    registrar.assertCanSetRequestHandler?.(method);
  } catch (cause) {
    throw new Error(
      `secureServer() comes too late: ${method} is handled already. Call it before anything is registered.`,
      { cause },
    );
  }
}

function wrapped(handler: Handler, named: string | undefined, paramsOnly: boolean, options: HandlerOptions): Handler {
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
    // Lists are answered even so: a client that cannot see the tools cannot be told what is wrong with its calls.
    const onRefused = method.endsWith('/list') ? 'run' : options.onRefused;
    try {
      return await handle(call, { ...options, onRefused }, async (handling) =>
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
