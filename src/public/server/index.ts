export type { SessionEndReason as EndReason, SessionView } from '../../sessions/session.ts';
export type {
  AuthInfo,
  CallerPrincipal,
  GivenGovernance,
  LocalSessions,
  OwnOptions,
  PrincipalOf,
  ServerSessionsOptions,
} from './options.ts';
export { createServerSessions, type ServerSessions, withSessions } from './server-sessions.ts';
export type { SessionFacts } from './session-layer.ts';
