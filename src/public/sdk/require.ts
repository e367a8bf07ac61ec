import { refusedBecause, type SessionContext, type TrustLevel } from './context.ts';
import { currentSession, store } from './current-session.ts';
import { SessionError, type SessionErrorCode } from './session-error.ts';

/**
 * Throws unless the session is trusted that far. `direct` satisfies both levels, `sandboxed` only itself, and a call
 * whose context is absent neither: unknown never means trusted.
 */
export function requireTrust(level: TrustLevel, context: SessionContext = currentSession()): void {
  if (level !== 'direct' && level !== 'sandboxed') throw new TypeError(`"${level}" is not a trust level.`);
  const { trustLevel } = context;
  if (trustLevel === 'direct' || (trustLevel !== undefined && trustLevel === level)) return;
  const has = trustLevel === undefined ? 'its trust level is not known' : `it is ${trustLevel}`;
  throw noted(
    'TRUST_REQUIRED',
    `this tool is for ${level} sessions only, and ${has}${because(context)}.`,
    trustLevel === undefined
      ? 'Start this server through Ambit, in a session of that trust level.'
      : 'Do without this tool, or ask the person who opened the session for a direct one.',
  );
}

/** Throws unless the session holds exactly this permission. Permissions are only ever known from a verified context. */
export function requirePermission(permission: string, context: SessionContext = currentSession()): void {
  if (context.permissions.includes(permission)) return;
  throw noted(
    'PERMISSION_DENIED',
    `this tool needs the permission "${permission}", which the session does not hold${because(context)}.`,
    `Do without this tool, or ask for a session created with "--permission ${permission}".`,
  );
}

function because(context: SessionContext): string {
  const refused = refusedBecause(context);
  if (refused !== undefined) return ` (${refused.replace(/\.$/, '')})`;
  return context.status === 'absent' ? ' (the call did not come through Ambit)' : '';
}

export function noted(code: SessionErrorCode, what: string, hint: string): SessionError {
  const error = new SessionError(code, what, hint);
  const handling = store.getStore();
  if (handling !== undefined) handling.refusal = error;
  return error;
}
