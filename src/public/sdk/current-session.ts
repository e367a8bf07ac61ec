import { AsyncLocalStorage } from 'node:async_hooks';
import { isAbsolute, resolve } from 'node:path';
import type { IncomingCall } from './call.ts';
import {
  createAbsentContext,
  findRefusalReason,
  freezeContext,
  type InheritedContext,
  parseTrustLevel,
  type SessionContext,
  SessionError,
  type SessionErrorCode,
  type TrustLevel,
} from './context.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The environment as it was when this module was loaded. Variables that a program sets later, for example from a `.env`
 * file of a project, do not come from whoever started it.
 */
export const startEnvironment: Environment = Object.freeze({ ...process.env });

/** A workspace as a handler uses it. */
interface UsableWorkspace {
  readonly id: string;
  readonly path: string | undefined;
}

/** The workspaces that a call may use, with `withSessions()`. */
export interface WorkspaceChoices {
  /** Finds a workspace by its slug or absolute path, if this call may use it. */
  find(name: string): UsableWorkspace | undefined;
  /** The slugs to suggest, some of them if there are many. */
  suggest(): readonly string[];
  /** The workspace that the client announced, if this call may not use it. */
  readonly unavailable: string | undefined;
  logMismatch(chosen: string, own: string): void;
}

export interface ActiveCall {
  readonly call: IncomingCall;
  readonly context: SessionContext;
  readonly workspaces?: WorkspaceChoices;
  /** The reason why this call was refused, so that the answer can carry its code. */
  refusal?: SessionError;
}

/** The call being handled. Only `run` enters it: a context left behind would leak into the next call. */
export const activeCall = new AsyncLocalStorage<ActiveCall>();

/**
 * The session of the current call, also in code that it awaits. Outside of `secureServer()` and `withSession()` it comes
 * from the environment.
 */
export function currentSession(): SessionContext {
  return activeCall.getStore()?.context ?? readInheritedContext();
}

/** Reads the context that the orchestrator set when it started this process. */
export function readInheritedContext(env: Environment = startEnvironment): SessionContext {
  const readVariable = (name: string) => env[`AMBIT_${name}`] || undefined;
  const context = {
    status: 'inherited' as const,
    sessionId: readVariable('SESSION_ID'),
    correlationId: undefined,
    userId: readVariable('USER_ID'),
    agentId: readVariable('AGENT_ID'),
    workspaceId: readVariable('WORKSPACE_ID'),
    workspacePath: readVariable('WORKSPACE_PATH'),
    trustLevel: parseTrustLevel(env.AMBIT_TRUST_LEVEL),
    permissions: [],
    issuedAt: undefined,
    expiresAt: undefined,
    reason: undefined,
    code: undefined,
  };
  const { sessionId, userId, agentId, workspaceId, trustLevel } = context;
  const found = sessionId ?? userId ?? agentId ?? workspaceId ?? trustLevel;
  if (found === undefined) {
    const reason = env.AMBIT_JWKS
      ? 'The call has no context, and this process does not belong to a single session.'
      : 'This server was started without Ambit.';
    return createAbsentContext('NO_CONTEXT', reason);
  }
  return freezeContext<InheritedContext>(context);
}

/** Creates an error and records it with the current call, so that the answer can carry its code. */
export function recordRefusal(code: SessionErrorCode, what: string, hint: string): SessionError {
  const error = new SessionError(code, what, hint);
  const active = activeCall.getStore();
  if (active !== undefined) active.refusal = error;
  return error;
}

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
  /** The path; not known for a workspace of `allowed`. */
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
      : context.status === 'own'
        ? 'Continue without this tool, or ask the person who runs this server.'
        : 'Continue without this tool, or ask the person who opened the session for a direct one.',
  );
}

/** Throws unless the session has exactly this permission. A context from the environment has no permissions. */
export function requirePermission(permission: string, context: SessionContext = currentSession()): void {
  if (context.permissions.includes(permission)) return;
  throw recordRefusal(
    'PERMISSION_DENIED',
    `this tool needs the permission "${permission}", which the session does not have${describeReason(context)}.`,
    context.status === 'own'
      ? `Continue without this tool, or ask the person who runs this server for the permission "${permission}".`
      : `Continue without this tool, or ask for a session created with "--permission ${permission}".`,
  );
}

function describeReason(context: SessionContext): string {
  const refused = findRefusalReason(context);
  if (refused !== undefined) return ` (${refused.replace(/\.$/, '')})`;
  return context.status === 'absent' ? ' (the call did not come through Ambit)' : '';
}

/**
 * Returns the workspace of the argument, else the session's, else throws an error that says how to give one. The argument
 * may be the session's own workspace, one that the caller may use (with `withSessions()`), or one of `allowed`; a slug or
 * an absolute path. The working directory is never used.
 */
export function resolveWorkspace(question: WorkspaceQuestion = {}): ResolvedWorkspace {
  const active = activeCall.getStore();
  const { context = currentSession(), allowed = [], log = stderrLog } = question;
  const choices = active?.context === context ? active.workspaces : undefined;
  const refused = findRefusalReason(context);
  if (refused !== undefined) {
    throw recordRefusal(
      'CONTEXT_REFUSED',
      refused,
      'Try again. If it keeps failing, tell the person who runs this server.',
    );
  }
  const explicit = question.explicit || undefined;
  const { workspaceId: own, workspacePath: ownPath } = context;
  if (explicit === undefined) {
    if (own !== undefined) return { workspace: own, from: 'session', path: ownPath };
    throw createMissingError(choices);
  }
  if (own !== undefined && (explicit === own || isSamePath(explicit, ownPath)))
    return { workspace: own, from: 'argument', path: ownPath };
  const found = choices?.find(explicit) ?? findInAllowed(allowed, explicit, context);
  if (found === undefined) {
    throw recordRefusal(
      'WORKSPACE_NOT_FOUND',
      `there is no workspace ${quoteName(explicit)} for this session.`,
      own === undefined ? suggestWorkspaces(choices) : `Leave "workspace" out to use ${JSON.stringify(own)}.`,
    );
  }
  if (own !== undefined) {
    const session = context.sessionId?.slice(0, 8) ?? 'unknown';
    if (choices !== undefined && question.log === undefined) choices.logMismatch(found.id, own);
    else
      log.info(`session=${session} workspace ${JSON.stringify(found.id)} was given instead of ${JSON.stringify(own)}`);
  }
  return { workspace: found.id, from: 'argument', path: found.path };
}

function findInAllowed(
  allowed: NonNullable<WorkspaceQuestion['allowed']>,
  name: string,
  context: SessionContext,
): UsableWorkspace | undefined {
  const isAllowed = typeof allowed === 'function' ? allowed(name, context) === true : allowed.includes(name);
  return isAllowed ? { id: name, path: undefined } : undefined;
}

function isSamePath(name: string, path: string | undefined): boolean {
  return path !== undefined && isAbsolute(name) && resolve(name) === resolve(path);
}

function createMissingError(choices: WorkspaceChoices | undefined): Error {
  if (choices === undefined) {
    return recordRefusal(
      'WORKSPACE_REQUIRED',
      'no workspace was given, and the session has none.',
      'Pass one as the argument "workspace", or use a session created with "--workspace".',
    );
  }
  const { unavailable } = choices;
  if (unavailable === undefined) {
    const what = 'no workspace was given, and the session has none.';
    return recordRefusal('WORKSPACE_REQUIRED', what, suggestWorkspaces(choices));
  }
  const what = `the client announced the workspace ${quoteName(unavailable)}, which is not available to this session.`;
  return recordRefusal('WORKSPACE_NOT_FOUND', what, suggestWorkspaces(choices));
}

function suggestWorkspaces(choices: WorkspaceChoices | undefined): string {
  if (choices === undefined) return 'Use a workspace that this server offers.';
  const names = choices.suggest();
  if (names.length === 0) return 'This server offers no workspace to this session: ask the person who runs it.';
  return `Pass one of these as the argument "workspace": ${names.map((name) => JSON.stringify(name)).join(', ')}.`;
}

function quoteName(name: string): string {
  return JSON.stringify(name.slice(0, 100));
}
