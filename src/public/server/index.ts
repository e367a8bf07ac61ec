export { AmbitError, type ErrorCode, isAmbitError } from '../../errors.ts';
export type { Log, LogFields } from '../../observability/log/log.ts';
export type { SessionEndReason as EndReason, SessionView } from '../../sessions/session.ts';
export { type CacheOptions, cacheResult } from './cache-result.ts';
export type {
  DeclaredWorkspace,
  DeclaredWorkspaces,
  FileOptions,
  OpenBackend,
  WorkspaceCaller,
} from './declared-workspaces.ts';
export type { GivenGovernance, ResolvedPolicies } from './governance.ts';
export { createServerSessions, type ServerSessions, withSessions } from './server-sessions.ts';
export type { SessionFacts } from './session-layer.ts';
export type {
  AuthInfo,
  CallerPrincipal,
  IdentifyKey,
  LocalSessions,
  OwnOptions,
  PrincipalOf,
  ServerSessionsOptions,
  SessionMetrics,
} from './settings.ts';
