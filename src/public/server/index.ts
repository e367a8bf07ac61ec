export type {
  AuthInfo,
  CallerPrincipal,
  GivenGovernance,
  LocalSessions,
  OwnOptions,
  PrincipalOf,
  ServerSessionsOptions,
} from './options.ts';
export { createServerSessions, type ServerSessions } from './server-sessions.ts';
export type { EndReason, SessionFacts, SessionView } from './shown-session.ts';
export { withSessions } from './with-sessions.ts';
