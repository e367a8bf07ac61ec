import type { ActingSession } from '../../rules/session-base.ts';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { JsonValue } from '../../stores/record.ts';

export type SessionErrorCode =
  | 'TRUST_REQUIRED'
  | 'PERMISSION_DENIED'
  | 'WORKSPACE_REQUIRED'
  | 'WORKSPACE_NOT_FOUND'
  | 'CONTEXT_REFUSED'
  | 'SESSION_EXPIRED'
  | 'SESSION_ENDED'
  | 'STATE_CONFLICT'
  | 'STATE_FULL'
  | 'STATE_UNAVAILABLE'
  | 'STORE_UNAVAILABLE'
  | 'REQUEST_INVALID';

const brand = Symbol.for('ambit.session-error');

/** A refusal that a model can act on: `CODE: what, why, what to do`. Thrown in a tool, it becomes an error result. */
export class SessionError extends Error {
  readonly [brand] = true;
  readonly code: SessionErrorCode;
  readonly hint: string;

  constructor(code: SessionErrorCode, what: string, hint: string) {
    super(`${code}: ${what} ${hint}`);
    this.name = 'SessionError';
    this.code = code;
    this.hint = hint;
  }
}

/** True for duplicate copies of this package as well, where `instanceof` is not. */
export function isSessionError(error: unknown): error is SessionError {
  return typeof error === 'object' && error !== null && brand in error;
}

/** The shape of a tool's result in both versions of the official SDK. */
export interface ErrorResult {
  [member: string]: unknown;
  content: { type: 'text'; text: string }[];
  isError: true;
  _meta: { 'ambit/error': { code: SessionErrorCode; hint: string } };
}

export function toErrorResult(error: SessionError): ErrorResult {
  return {
    content: [{ type: 'text', text: error.message }],
    isError: true,
    _meta: { 'ambit/error': { code: error.code, hint: error.hint } },
  };
}

export type { JsonValue };

export interface StateEntry {
  readonly value: JsonValue;
  /** Rises with every write in the session. */
  readonly version: number;
  /** Milliseconds since 1970; null when it lasts as long as the session. */
  readonly expiresAt: number | null;
}

export interface StateWrite {
  /** Writes only when the entry has this version; 0 means that there must be none. Otherwise STATE_CONFLICT. */
  readonly expectedVersion?: number | undefined;
  /** Without it the entry lasts as long as the session. */
  readonly ttlSeconds?: number | undefined;
}

/** State that the calls of a session keep for later ones. It ends with the session, and no other session can read it. */
export interface SessionState {
  get(key: string): Promise<StateEntry | undefined>;
  /** Returns the new version. */
  set(key: string, value: JsonValue, options?: StateWrite): Promise<number>;
  /** Reads, changes and writes, and repeats if another call was faster. `change` must have no side effects. */
  update<T extends JsonValue = JsonValue>(
    key: string,
    change: (value: T | undefined) => T,
    options?: Pick<StateWrite, 'ttlSeconds'>,
  ): Promise<{ readonly value: T; readonly version: number }>;
  /** Returns false if there was none. */
  delete(key: string, options?: Pick<StateWrite, 'expectedVersion'>): Promise<boolean>;
  /** Lists keys in the order of their characters. Give `next` as `after` to get the next page. */
  list(options?: {
    readonly prefix?: string | undefined;
    readonly after?: string | undefined;
    readonly limit?: number | undefined;
  }): Promise<{ readonly keys: readonly string[]; readonly next: string | null }>;
}

async function throwUnavailable(): Promise<never> {
  throw new SessionError(
    'STATE_UNAVAILABLE',
    'no session state is available for this call.',
    'The author of this server can add it with withSessions() from "ambit-mcp/server".',
  );
}

/** The state outside of `withSessions()`: every method throws. */
const noState: SessionState = Object.freeze({
  get: throwUnavailable,
  set: throwUnavailable,
  update: throwUnavailable,
  delete: throwUnavailable,
  list: throwUnavailable,
});

/** The error of a context that is not valid. Callers of the SDK never see it: they get an absent context. */
export class ContextError extends Error {
  readonly code: ContextProblem;

  constructor(code: ContextProblem, reason: string) {
    super(reason);
    this.code = code;
  }
}

export type { TrustLevel };

/** The reason why a call has no valid context. `NO_CONTEXT` means that none was sent; all others, that it was refused. */
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

/** The life of a session of the server's own, at the time of the call. Times are milliseconds since 1970. */
export interface SessionLife {
  readonly name: string | undefined;
  readonly parentId: string | undefined;
  readonly createdAt: number;
  /** The time of this call, which has renewed the session. */
  readonly lastActiveAt: number;
  readonly ttlSeconds: number;
  /** The time at which it ends unless it is used before. */
  readonly expiresAt: number;
  /** The time at which it ends, used or not. */
  readonly endsAt: number;
  /** Notes of the program that opened the session. */
  readonly metadata: Readonly<Record<string, JsonValue>>;
}

/** Members of a context that are not printed with it. */
export interface UnprintedMembers {
  /** State that the calls of this session share, only inside `withSessions()` of `ambit-mcp/server`. */
  readonly state: SessionState;
  /** The record of the session, only for sessions that `withSessions()` opened. */
  readonly record: SessionLife | undefined;
  /** Aborted when the client cancels the call and, inside `withSessions()`, when the session ends. */
  readonly signal: AbortSignal;
}

interface ContextBase extends UnprintedMembers, Pick<ActingSession, 'agentId' | 'workspaceId' | 'permissions'> {
  /** The path of the workspace as this process sees it. Known over stdio, and for sessions of `withSessions()`. */
  readonly workspacePath: string | undefined;
}

/** A context signed by Ambit for this server and this very call. Times are milliseconds since 1970. */
export interface VerifiedContext extends ContextBase, Pick<ActingSession, 'userId' | 'trustLevel'> {
  readonly status: 'verified';
  readonly sessionId: string;
  readonly correlationId: string;
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** Set if the plain object beside the token said otherwise. The signed values are used. */
  readonly reason: string | undefined;
  readonly code: undefined;
}

/** A context from the environment: set by the orchestrator that started this process, valid for all of its calls. */
export interface InheritedContext extends ContextBase {
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
export interface OwnContext extends ContextBase, Pick<ActingSession, 'userId' | 'trustLevel'> {
  readonly status: 'own';
  readonly sessionId: string;
  readonly correlationId: string;
  readonly issuedAt: undefined;
  readonly expiresAt: undefined;
  readonly reason: undefined;
  readonly code: undefined;
}

/** No valid context. `reason` is for people, `code` for programs. */
export interface AbsentContext extends ContextBase {
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

/** The session that calls a tool; `status` says how reliable it is. */
export type SessionContext = VerifiedContext | InheritedContext | OwnContext | AbsentContext;

const neverAborted = new AbortController().signal;

/** Freezes a context, so that no handler can change what another one reads. */
export function freezeContext<C extends SessionContext>(
  facts: Omit<C, keyof UnprintedMembers>,
  { state = noState, record, signal = neverAborted }: Partial<UnprintedMembers> = {},
): C {
  Object.freeze(facts.permissions);
  const unprinted = { state: { value: state }, record: { value: record }, signal: { value: signal } };
  return Object.freeze(Object.defineProperties(facts, unprinted)) as unknown as C;
}

export function createAbsentContext(code: ContextProblem, reason: string): AbsentContext {
  return freezeContext<AbsentContext>({
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

/** The reason if a context was sent and refused; undefined if none was sent. */
export function findRefusalReason(context: SessionContext): string | undefined {
  return context.status === 'absent' && context.code !== 'NO_CONTEXT' ? context.reason : undefined;
}

export function parseTrustLevel(value: unknown): TrustLevel | undefined {
  return value === 'direct' || value === 'sandboxed' ? value : undefined;
}

export function refuseContext(code: ContextProblem, reason: string): never {
  throw new ContextError(code, reason);
}

/** Quotes a value from outside, short and on one line, for an error text. */
export function quoteValue(value: unknown): string {
  const text = JSON.stringify(value) ?? 'nothing';
  return text.length > 80 ? `${text.slice(0, 76)}…"` : text;
}
