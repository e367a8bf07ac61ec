import type { ActingSession } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import { noState, type SessionState } from './session-state.ts';

/** How the steps of reading a context say no to one another; it never leaves this room. */
export class Refusal extends Error {
  readonly code: ContextProblem;

  constructor(code: ContextProblem, reason: string) {
    super(reason);
    this.code = code;
  }
}

export type { TrustLevel };

/** Why a call has no context that holds. `NO_CONTEXT` means that nothing was sent; all others, that what was sent failed. */
export type ContextProblem =
  | 'NO_CONTEXT'
  | 'CONTEXT_MALFORMED'
  | 'TOKEN_MISSING'
  | 'TOKEN_MALFORMED'
  | 'TOKEN_TOO_LARGE'
  | 'TOKEN_TYPE'
  | 'TOKEN_ALGORITHM'
  | 'KEYS_MISSING'
  | 'KEYS_UNUSABLE'
  | 'KEY_UNKNOWN'
  | 'SIGNATURE_INVALID'
  | 'CLAIMS_INVALID'
  | 'ISSUER_MISMATCH'
  | 'AUDIENCE_UNKNOWN'
  | 'AUDIENCE_MISMATCH'
  | 'TOKEN_EXPIRED'
  | 'TOKEN_NOT_YET_VALID'
  | 'TOKEN_LIFETIME'
  | 'CALL_UNKNOWN'
  | 'METHOD_MISMATCH'
  | 'NAME_MISMATCH'
  | 'ARGUMENTS_MISMATCH'
  | 'TOKEN_REPLAYED'
  | 'REPLAYS_UNKNOWN';

interface Facts extends Pick<ActingSession, 'agentId' | 'workspaceId' | 'permissions'> {
  /** Where the workspace lies, as this process sees it. Known over stdio only. */
  readonly workspacePath: string | undefined;
  /** What the calls of this session keep; only inside `withSessions()` of `ambit/server`. Not shown when it is printed. */
  readonly state: SessionState;
}

/** Signed by Ambit, for this server, for this very call. Times are milliseconds since 1970. */
export interface VerifiedContext extends Facts, Pick<ActingSession, 'userId' | 'trustLevel'> {
  readonly status: 'verified';
  readonly sessionId: string;
  readonly correlationId: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** Set where the plain object beside the token said otherwise; what is signed holds. */
  readonly reason: string | undefined;
  readonly code: undefined;
}

/** From the environment: what the orchestrator said when it started this process, true for all of its calls. */
export interface InheritedContext extends Facts {
  readonly status: 'inherited';
  readonly sessionId: string | undefined;
  /** Known inside `withSessions()` only. */
  readonly correlationId: string | undefined;
  readonly userId: string | undefined;
  readonly trustLevel: TrustLevel | undefined;
  readonly issuedAt: undefined;
  readonly expiresAt: undefined;
  readonly reason: undefined;
  readonly code: undefined;
}

/** A session of the server's own, opened by `withSessions()` where there is no Ambit in front. */
export interface OwnContext extends Facts, Pick<ActingSession, 'userId' | 'trustLevel'> {
  readonly status: 'own';
  readonly sessionId: string;
  readonly correlationId: string;
  readonly issuedAt: undefined;
  readonly expiresAt: undefined;
  readonly reason: undefined;
  readonly code: undefined;
}

/** Nothing that could be relied on. `reason` is for people, `code` for programs. */
export interface AbsentContext extends Facts {
  readonly status: 'absent';
  readonly sessionId: undefined;
  readonly correlationId: undefined;
  readonly userId: undefined;
  readonly trustLevel: undefined;
  readonly issuedAt: undefined;
  readonly expiresAt: undefined;
  readonly reason: string;
  readonly code: ContextProblem;
}

/** What a tool knows about the session that calls it, and how far that can be relied on. */
export type SessionContext = VerifiedContext | InheritedContext | OwnContext | AbsentContext;

/** Handlers of one process share these objects with nobody, and nobody can write to them. */
export function frozen<C extends SessionContext>(facts: Omit<C, 'state'>, state: SessionState = noState): C {
  Object.freeze(facts.permissions);
  return Object.freeze(Object.defineProperty(facts, 'state', { value: state })) as C;
}

export function absent(code: ContextProblem, reason: string): AbsentContext {
  return frozen<AbsentContext>({
    status: 'absent',
    sessionId: undefined,
    correlationId: undefined,
    userId: undefined,
    agentId: undefined,
    workspaceId: undefined,
    workspacePath: undefined,
    trustLevel: undefined,
    permissions: [],
    issuedAt: undefined,
    expiresAt: undefined,
    reason,
    code,
  });
}

/** Set where something was presented and did not hold, which is not the same as a server that runs without Ambit. */
export function refusedBecause(context: SessionContext): string | undefined {
  return context.status === 'absent' && context.code !== 'NO_CONTEXT' ? context.reason : undefined;
}

export function trustLevelOf(value: unknown): TrustLevel | undefined {
  return value === 'direct' || value === 'sandboxed' ? value : undefined;
}

/** A value from outside, short and on one line, for a sentence that people read. */
export function quoted(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 80 ? `${text.slice(0, 76)}…"` : text;
}
