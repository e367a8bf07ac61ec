import { type SecurableServer, wrapHandlers } from '../sdk/wrap-handlers.ts';
import type { OwnOptions } from './options.ts';
import { createLayer, isLayer, type Layer, type ServerSessions } from './server-sessions.ts';

let ofProcess: Layer | undefined;

/**
 * Makes every call of a tool that is registered from now on run inside a session, behind Ambit or alone. Call it right
 * after the server was made. Without a second argument all servers of this process share their sessions, as the
 * environment says; over HTTP give what `createServerSessions()` made.
 */
export function withSessions<S extends SecurableServer>(server: S, given?: ServerSessions | OwnOptions): S {
  const layer = given === undefined ? sharedLayer() : isLayer(given) ? given : createLayer(given as OwnOptions, false);
  return wrapHandlers(server, { by: 'withSessions', transport: layer.transport }, layer.around);
}

function sharedLayer(): Layer {
  ofProcess ??= createLayer({}, true);
  return ofProcess;
}
