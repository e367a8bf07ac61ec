import { type HandlerOptions, handle } from './with-session.ts';
import { type SecurableServer, wrapHandlers } from './wrap-handlers.ts';

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
