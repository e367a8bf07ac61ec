import { AsyncLocalStorage } from 'node:async_hooks';
import type { Call } from './call.ts';
import { absent, frozen, type InheritedContext, type SessionContext, trustLevelOf } from './context.ts';
import type { SessionError } from './session-error.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment as it was when this module was loaded. What a program puts there later, from a `.env` file of the
 * project it works on, is not the word of whoever started it.
 */
export const startEnvironment: Environment = Object.freeze(
  Object.fromEntries(Object.entries(process.env).filter(([name]) => name.startsWith('AMBIT_'))),
);

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

/** What the orchestrator said when it started this process. */
export function inheritedContext(env: Environment = startEnvironment): SessionContext {
  const said = (name: string) => env[`AMBIT_${name}`] || undefined;
  const context = {
    status: 'inherited' as const,
    sessionId: said('SESSION_ID'),
    correlationId: undefined,
    userId: said('USER_ID'),
    agentId: said('AGENT_ID'),
    workspaceId: said('WORKSPACE_ID'),
    workspacePath: said('WORKSPACE_PATH'),
    trustLevel: trustLevelOf(env.AMBIT_TRUST_LEVEL),
    permissions: [],
    issuedAt: undefined,
    expiresAt: undefined,
    reason: undefined,
    code: undefined,
  };
  const { sessionId, userId, agentId, workspaceId, trustLevel } = context;
  const anything = sessionId ?? userId ?? agentId ?? workspaceId ?? trustLevel;
  if (anything === undefined) {
    const alone = !env.AMBIT_JWKS;
    return absent(
      'NO_CONTEXT',
      alone
        ? 'This server was started without Ambit.'
        : 'The call carries no context, and this process serves no one session.',
    );
  }
  return frozen<InheritedContext>(context);
}
