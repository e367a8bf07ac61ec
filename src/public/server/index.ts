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
export type { EndReason, SessionFacts, SessionView } from './session-views.ts';
