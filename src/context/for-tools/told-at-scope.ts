import type { SessionContext } from './context-names.ts';

/**
 * What a process may be told when it starts, by who shares it: only what is true for every call it will serve. The rest
 * comes with each call.
 */
export function toldAt(
  scope: 'call' | 'session' | 'user' | 'workspace' | 'shared',
  context: SessionContext,
): SessionContext {
  if (scope === 'shared') return { jwks: context.jwks };
  // The agent belongs to the session.
  const { sessionId: _session, agentId: _agent, ...ofUser } = context;
  if (scope === 'user') return ofUser;
  const { userId: _user, ...ofWorkspace } = ofUser;
  return scope === 'workspace' ? ofWorkspace : context;
}
