export type { CallDetails, CallSource } from './call.ts';
export type {
  AbsentContext,
  ContextProblem,
  InheritedContext,
  JsonValue,
  OwnContext,
  SessionContext,
  SessionLife,
  SessionState,
  StateEntry,
  StateWrite,
  TrustLevel,
  VerifiedContext,
} from './context.ts';
export {
  currentSession,
  type ResolvedWorkspace,
  requirePermission,
  requireTrust,
  resolveWorkspace,
  type WorkspaceQuestion,
} from './current-session.ts';
export type { KeySource } from './keys.ts';
export {
  type ContextOptions,
  createReplayMemory,
  type ReadOptions,
  type ReplayMemory,
  readContext,
} from './read-context.ts';
export {
  type ErrorResult,
  isSessionError,
  SessionError,
  type SessionErrorCode,
  toErrorResult,
} from './session-error.ts';
export { type HandlerOptions, secureServer, withSession } from './with-session.ts';
export type { SecurableServer } from './wrap-handlers.ts';
