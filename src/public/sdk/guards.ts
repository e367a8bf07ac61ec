import { findRefusalReason, type SessionContext, type TrustLevel } from './context.ts';
import { currentSession, recordRefusal } from './current-session.ts';

export interface WorkspaceQuestion {
  /** The argument of the caller, if any; it chooses among the allowed workspaces. */
  readonly explicit?: string | undefined;
  readonly context?: SessionContext | undefined;
  /** The workspaces a caller may choose besides the session's own: a list or a function. By default none. */
  readonly allowed?: readonly string[] | ((workspace: string, context: SessionContext) => boolean) | undefined;
  readonly log?: { info(line: string): void } | undefined;
}

export interface ResolvedWorkspace {
  readonly workspace: string;
  readonly from: 'argument' | 'session';
  /** The path; known for the session's own workspace only. */
  readonly path: string | undefined;
}

/** Standard output belongs to the protocol in a stdio server. */
const stderrLog = { info: (line: string) => void process.stderr.write(`${line}\n`) };

/**
 * Throws unless the session has this trust level. `direct` satisfies both levels, `sandboxed` only itself, and an absent
 * context neither: unknown never means trusted.
 */
export function requireTrust(level: TrustLevel, context: SessionContext = currentSession()): void {
  if (level !== 'direct' && level !== 'sandboxed') throw new TypeError(`"${level}" is not a trust level.`);
  const { trustLevel } = context;
  if (trustLevel === 'direct' || (trustLevel !== undefined && trustLevel === level)) return;
  const has = trustLevel === undefined ? 'its trust level is not known' : `it is ${trustLevel}`;
  throw recordRefusal(
    'TRUST_REQUIRED',
    `this tool is for ${level} sessions only, and ${has}${describeReason(context)}.`,
    trustLevel === undefined
      ? 'Start this server through Ambit, in a session of that trust level.'
      : 'Continue without this tool, or ask the person who opened the session for a direct one.',
  );
}

/** Throws unless the session has exactly this permission. Only a verified context has permissions. */
export function requirePermission(permission: string, context: SessionContext = currentSession()): void {
  if (context.permissions.includes(permission)) return;
  throw recordRefusal(
    'PERMISSION_DENIED',
    `this tool needs the permission "${permission}", which the session does not have${describeReason(context)}.`,
    `Continue without this tool, or ask for a session created with "--permission ${permission}".`,
  );
}

function describeReason(context: SessionContext): string {
  const refused = findRefusalReason(context);
  if (refused !== undefined) return ` (${refused.replace(/\.$/, '')})`;
  return context.status === 'absent' ? ' (the call did not come through Ambit)' : '';
}

/** Returns the argument, else the session's workspace, else throws an error that says how to give one. Never uses the working directory. */
export function resolveWorkspace(question: WorkspaceQuestion = {}): ResolvedWorkspace {
  const { context = currentSession(), allowed = [], log = stderrLog } = question;
  const refused = findRefusalReason(context);
  if (refused !== undefined) {
    throw recordRefusal(
      'CONTEXT_REFUSED',
      refused,
      'Try again. If it keeps failing, tell the person who runs this server.',
    );
  }
  const explicit = question.explicit || undefined;
  const own = context.workspaceId;
  if (explicit === undefined) {
    if (own !== undefined) return { workspace: own, from: 'session', path: context.workspacePath };
    throw recordRefusal(
      'WORKSPACE_REQUIRED',
      'no workspace was given, and the session has none.',
      'Pass one as the argument "workspace", or use a session created with "--workspace".',
    );
  }
  if (explicit === own) return { workspace: own, from: 'argument', path: context.workspacePath };
  const isAllowed = typeof allowed === 'function' ? allowed(explicit, context) === true : allowed.includes(explicit);
  if (!isAllowed) {
    throw recordRefusal(
      'WORKSPACE_NOT_FOUND',
      `there is no workspace ${JSON.stringify(explicit.slice(0, 100))} for this session.`,
      own === undefined
        ? 'Use a workspace that this server offers.'
        : `Leave "workspace" out to use ${JSON.stringify(own)}.`,
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
