import { AmbitError, type ErrorCode, errorTable } from '../../errors.ts';

/** Hints for the users of a server that has no gateway and no command `ambit`. */
const hints: Partial<Record<ErrorCode, string>> = {
  UNAUTHENTICATED: 'Send a credential that this server accepts.',
  SESSION_NOT_FOUND: 'Use a session that was opened for you, or none.',
  SESSION_EXPIRED: 'Connect again to start a new session.',
  SESSION_ENDED: 'Connect again to start a new session.',
  SESSION_LIMIT: 'End a session that is no longer needed, or try again later.',
  PERMISSION_DENIED: 'Continue without this call, or ask the person who runs this server.',
  TRUST_REQUIRED: 'Continue without this call, or ask the person who runs this server.',
  WORKSPACE_NOT_FOUND: 'Use a workspace that this server offers to you, or none.',
  WORKSPACE_REQUIRED: 'Announce a workspace in _meta.ambit.workspace, or ask the person who runs this server.',
  QUOTA_EXCEEDED: 'Try again later, or ask the person who runs this server.',
  CONFIG_INVALID: 'The author of this server must correct it.',
  PATH_PROTECTED: 'Continue without it, or ask the person who runs this server.',
  WORKSPACE_FULL: 'Delete files that are no longer needed, or ask the person who runs this server.',
  INTERNAL: 'The log of this server has the details.',
  STORE_UNAVAILABLE: 'Try again later.',
};

/** Replaces the general hint of an error, which names commands of the gateway. A hint for the case itself stays. */
export function toLibraryError(error: AmbitError): AmbitError {
  const hint = hints[error.code];
  if (hint === undefined || error.hint !== errorTable[error.code].hint) return error;
  const { message: what, rule, retryAfterMs } = error;
  return new AmbitError(error.code, {
    what,
    hint,
    ...(rule === undefined ? {} : { rule }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    cause: error,
  });
}
