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
  type ErrorResult,
  isSessionError,
  SessionError,
  type SessionErrorCode,
  toErrorResult,
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
  type HandlerOptions,
  type ReadOptions,
  type ReplayMemory,
  readContext,
  secureServer,
  withSession,
} from './with-session.ts';
export type { SecurableServer } from './wrap-handlers.ts';
