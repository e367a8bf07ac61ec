import { AsyncLocalStorage } from 'node:async_hooks';
import type { IncomingCall } from './call.ts';
import {
  createAbsentContext,
  freezeContext,
  type InheritedContext,
  parseTrustLevel,
  type SessionContext,
} from './context.ts';
import { SessionError, type SessionErrorCode } from './session-error.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment as it was when this module was loaded. Variables that a program sets later, for example from a `.env`
 * file of a project, do not come from whoever started it.
 */
export const startEnvironment: Environment = Object.freeze({ ...process.env });

/** A workspace as a handler uses it. */
export interface UsableWorkspace {
  readonly id: string;
  readonly path: string | undefined;
}

/** The workspaces that a call may use, with `withSessions()`. */
export interface WorkspaceChoices {
  /** Finds a workspace by its slug or absolute path, if this call may use it. */
  find(name: string): UsableWorkspace | undefined;
  /** The slugs to suggest, some of them if there are many. */
  suggest(): readonly string[];
  /** The workspace that the client announced, if this call may not use it. */
  readonly unavailable: string | undefined;
  logMismatch(chosen: string, own: string): void;
}

export interface ActiveCall {
  readonly call: IncomingCall;
  readonly context: SessionContext;
  readonly workspaces?: WorkspaceChoices;
  /** The reason why this call was refused, so that the answer can carry its code. */
  refusal?: SessionError;
}

/** The call being handled. Only `run` enters it: a context left behind would leak into the next call. */
export const activeCall = new AsyncLocalStorage<ActiveCall>();

/**
 * The session of the current call, also in code that it awaits. Outside of `secureServer()` and `withSession()` it comes
 * from the environment.
 */
export function currentSession(): SessionContext {
  return activeCall.getStore()?.context ?? readInheritedContext();
}

/** Reads the context that the orchestrator set when it started this process. */
export function readInheritedContext(env: Environment = startEnvironment): SessionContext {
  const readVariable = (name: string) => env[`AMBIT_${name}`] || undefined;
  const context = {
    status: 'inherited' as const,
    sessionId: readVariable('SESSION_ID'),
    correlationId: undefined,
    userId: readVariable('USER_ID'),
    agentId: readVariable('AGENT_ID'),
    workspaceId: readVariable('WORKSPACE_ID'),
    workspacePath: readVariable('WORKSPACE_PATH'),
    trustLevel: parseTrustLevel(env.AMBIT_TRUST_LEVEL),
    permissions: [],
    issuedAt: undefined,
    expiresAt: undefined,
    reason: undefined,
    code: undefined,
  };
  const { sessionId, userId, agentId, workspaceId, trustLevel } = context;
  const found = sessionId ?? userId ?? agentId ?? workspaceId ?? trustLevel;
  if (found === undefined) {
    const reason = env.AMBIT_JWKS
      ? 'The call has no context, and this process does not belong to a single session.'
      : 'This server was started without Ambit.';
    return createAbsentContext('NO_CONTEXT', reason);
  }
  return freezeContext<InheritedContext>(context);
}

/** Creates an error and records it with the current call, so that the answer can carry its code. */
export function recordRefusal(code: SessionErrorCode, what: string, hint: string): SessionError {
  const error = new SessionError(code, what, hint);
  const active = activeCall.getStore();
  if (active !== undefined) active.refusal = error;
  return error;
}
