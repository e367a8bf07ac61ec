import { AsyncLocalStorage } from 'node:async_hooks';
import type { Call } from './call.ts';
import type { SessionContext } from './context.ts';
import { inheritedContext } from './environment.ts';
import type { SessionError } from './session-error.ts';

export interface Handling {
  readonly call: Call;
  readonly context: SessionContext;
  /** What this call was refused for, so that the answer can carry its code. */
  refusal?: SessionError;
}

/** Entered only by `run`: a context that was left behind would belong to the next call. */
export const store = new AsyncLocalStorage<Handling>();

/**
 * The session of the call under way, in whatever it awaits too. Outside of `secureServer()` and `withSession()` it is
 * what the environment says.
 */
export function currentSession(): SessionContext {
  return store.getStore()?.context ?? inheritedContext();
}
