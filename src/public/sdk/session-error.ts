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
