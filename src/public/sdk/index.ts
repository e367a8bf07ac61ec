export type { CallDetails, CallSource } from './call.ts';
export type {
  AbsentContext,
  ContextProblem,
  InheritedContext,
  OwnContext,
  SessionContext,
  TrustLevel,
  VerifiedContext,
} from './context.ts';
export { currentSession } from './current-session.ts';
export type { KeySource } from './keys.ts';
export type { ContextOptions } from './options.ts';
export { type ReadOptions, readContext } from './read-context.ts';
export { createReplayMemory, type ReplayMemory } from './replay-memory.ts';
export { requirePermission, requireTrust } from './require.ts';
export { type ResolvedWorkspace, resolveWorkspace, type WorkspaceQuestion } from './resolve-workspace.ts';
export { secureServer } from './secure-server.ts';
export {
  type ErrorResult,
  isSessionError,
  SessionError,
  type SessionErrorCode,
  toErrorResult,
} from './session-error.ts';
export type { JsonValue, SessionState, StateEntry, StateWrite } from './session-state.ts';
export { type HandlerOptions, withSession } from './with-session.ts';
export type { SecurableServer } from './wrap-handlers.ts';
