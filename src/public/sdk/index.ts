export type { CallDetails, CallSource } from './call.ts';
export type {
  AbsentContext,
  ContextProblem,
  InheritedContext,
  OwnContext,
  SessionContext,
  SessionLife,
  TrustLevel,
  VerifiedContext,
} from './context.ts';
export { currentSession } from './current-session.ts';
export {
  type ResolvedWorkspace,
  requirePermission,
  requireTrust,
  resolveWorkspace,
  type WorkspaceQuestion,
} from './guards.ts';
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
export type { JsonValue, SessionState, StateEntry, StateWrite } from './session-state.ts';
export { type HandlerOptions, secureServer, withSession } from './with-session.ts';
export type { SecurableServer } from './wrap-handlers.ts';
