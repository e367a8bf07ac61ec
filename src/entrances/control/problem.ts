import { AmbitError, type ErrorCode } from '../../errors.ts';

export interface AdminAnswer {
  readonly status: number;
  readonly body?: unknown;
  /** The body is `application/problem+json`. */
  readonly problem?: boolean;
}

/** A refusal whose problem document has further members. */
export class DetailedRefusal extends AmbitError {
  readonly members: object;

  constructor(code: ErrorCode, what: string, members: object) {
    super(code, { what });
    this.members = members;
  }
}

export function problem(status: number, code: string, detail: string, hint: string, members: object = {}): AdminAnswer {
  return { status, problem: true, body: { type: 'about:blank', title: code, status, code, detail, hint, ...members } };
}
