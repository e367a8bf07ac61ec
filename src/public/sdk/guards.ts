import { refusedBecause, type SessionContext, type TrustLevel } from './context.ts';
import { currentSession, store } from './current-session.ts';
import { SessionError, type SessionErrorCode } from './session-error.ts';

export interface WorkspaceQuestion {
  /** What the caller gave as argument, if anything; it chooses within the bounds. */
  readonly explicit?: string | undefined;
  readonly context?: SessionContext | undefined;
  /** The workspaces a caller may choose besides the session's own: a list, or a decision. By default none. */
  readonly allowed?: readonly string[] | ((workspace: string, context: SessionContext) => boolean) | undefined;
  readonly log?: { info(line: string): void } | undefined;
}

export interface ResolvedWorkspace {
  readonly workspace: string;
  readonly from: 'argument' | 'session';
  /** Where it lies; known for the session's own workspace only. */
  readonly path: string | undefined;
}

/** Standard output belongs to the protocol in a stdio server. */
const toStderr = { info: (line: string) => void process.stderr.write(`${line}\n`) };

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

/** The argument, else the session's workspace, else an error that says how to supply one. Never the working directory. */
export function resolveWorkspace(question: WorkspaceQuestion = {}): ResolvedWorkspace {
  const { context = currentSession(), allowed = [], log = toStderr } = question;
  const refused = refusedBecause(context);
  if (refused !== undefined) {
    throw noted('CONTEXT_REFUSED', refused, 'Call again; if it goes on, tell the person who runs this server.');
  }
  const explicit = question.explicit || undefined;
  const own = context.workspaceId;
  if (explicit === undefined) {
    if (own !== undefined) return { workspace: own, from: 'session', path: context.workspacePath };
    throw noted(
      'WORKSPACE_REQUIRED',
      'no workspace was given, and the session has none.',
      'Give one as the argument "workspace", or use a session created with "--workspace".',
    );
  }
  if (explicit === own) return { workspace: own, from: 'argument', path: context.workspacePath };
  const may = typeof allowed === 'function' ? allowed(explicit, context) === true : allowed.includes(explicit);
  if (!may) {
    throw noted(
      'WORKSPACE_NOT_FOUND',
      `there is no workspace ${JSON.stringify(explicit.slice(0, 100))} for this session.`,
      own === undefined ? 'Give one that this server offers.' : `Leave "workspace" out to use ${JSON.stringify(own)}.`,
    );
  }
  if (own !== undefined) {
    const session = context.sessionId?.slice(0, 8) ?? 'unknown';
    log.info(
      `session=${session} workspace ${JSON.stringify(explicit)} was given instead of the session's ${JSON.stringify(own)}`,
    );
  }
  return { workspace: explicit, from: 'argument', path: undefined };
}
