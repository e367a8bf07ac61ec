import type { z } from 'zod';
import { AmbitError, type ErrorCode } from '../../errors.ts';
import type { Operator } from '../../gateway/gateway.ts';
import type { ControlRole } from '../../identity/consoles.ts';
import type { Reader } from '../../lib/async/reader-turns.ts';
import { scrubValue } from '../../observability/log/scrub.ts';
import type * as answers from './answer-schemas.ts';

export interface ControlAnswer {
  readonly status: number;
  readonly body?: unknown;
  /** The body is `application/problem+json`. */
  readonly isProblem?: boolean;
}

/** A refusal whose problem document has further members. */
export class DetailedProblemError extends AmbitError {
  readonly members: object;

  constructor(code: ErrorCode, what: string, members: object) {
    super(code, { what });
    this.members = members;
  }
}

export type AnswerSchemas = typeof answers;
/** The name of a schema in answer-schemas.ts. */
type AnswerName = keyof AnswerSchemas;

/** The schemas by which the query and the body of a request are read. */
interface RequestSchemas {
  readonly query?: z.ZodObject;
  readonly body?: z.ZodType;
}

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;

/** A request as a handler receives it, read by the schemas of its row. */
export interface RouteRequest<R extends RequestSchemas = RequestSchemas> {
  /** The part of the path that stands for `{id}`. */
  readonly parameter: string;
  readonly query: Output<R['query']>;
  readonly body: Output<R['body']>;
  /** The address at which clients reach the gateway, if it listens. */
  readonly address: string | undefined;
  readonly caller: ControlCaller;
  /** Aborted when the sender has left. */
  readonly signal: AbortSignal | undefined;
}

/** The sender of a request to the control API. */
export interface ControlCaller {
  readonly role: ControlRole;
  /** The name of the credential, for the journal. Undefined on the control socket. */
  readonly by: string | undefined;
  /** The console whose token was sent. */
  readonly consoleId?: string | undefined;
  /** The time at which the credential expires, if it does. */
  readonly until?: number | undefined;
  /** The network address of the sender, or of the proxy in front of Ambit. */
  readonly from?: string | undefined;
}

/** The sender on the control socket, and of a command without a gateway: the user who runs Ambit. */
export const localCaller: ControlCaller = { role: 'admin', by: undefined };

/**
 * Names a caller as a reader. All consoles of a person are one reader. Among them each has its own turn, because others
 * may use them: a link to the console is made for somebody else.
 */
export function nameReader({ role, by, consoleId }: ControlCaller): Reader {
  return { reader: `${role} ${by ?? ''}`, console: consoleId };
}

/** Tells whether a caller may use a route. */
export function hasRole({ role }: ControlCaller, needed: ControlRole): boolean {
  return role === 'admin' || role === needed;
}

/** A session as this caller may see it: whoever opened it may have written a credential into its task or metadata. */
export function showSession<T extends object>(session: T, caller: ControlCaller): T {
  const written = Object.entries(session).filter(([name]) => name === 'task' || name === 'metadata');
  return { ...session, ...Object.fromEntries(written.map(([name, value]) => [name, showWritten(value, caller)])) };
}

/** A text or value as this caller may see it: whoever wrote it may have written a credential into it. */
export function showWritten<T>(written: T, caller: ControlCaller): T {
  return hasRole(caller, 'admin') ? written : (scrubValue(written) as T);
}

/** The description of a route: its texts and schemas. */
export interface RouteDescription extends RequestSchemas {
  /** The lowest role that may use the route. */
  readonly role: ControlRole;
  /** The route also answers requests without a credential, which are handled apart. */
  readonly isOpen?: true;
  readonly summary: string;
  readonly description?: string;
  /** The meaning of `{id}` in the path. */
  readonly parameter?: string;
  /** The status of the answer; 200 unless said. */
  readonly status?: 200 | 201;
  readonly returns: string;
  readonly answer: AnswerName;
  /** The media type of the answer; JSON unless said. */
  readonly type?: 'text/event-stream';
  /** The headers that it takes, by name, with what each says. */
  readonly headers?: Readonly<Record<string, string>>;
  /** The refusals whose problem document has further members, by status. */
  readonly refusals?: Readonly<Record<number, { readonly returns: string; readonly answer: AnswerName }>>;
}

export interface Route extends RouteDescription {
  /** Returns the body of the answer. */
  handle(gateway: Operator, asked: RouteRequest): unknown;
}

type RouteRow<Query extends z.ZodObject, Body extends z.ZodType, Answer extends AnswerName> = Omit<
  RouteDescription,
  'query' | 'body' | 'answer'
> & {
  readonly query?: Query;
  readonly body?: Body;
  readonly answer: Answer;
  readonly handle: (
    gateway: Operator,
    asked: RouteRequest<{ query: Query; body: Body }>,
  ) => z.input<AnswerSchemas[Answer]> | Promise<z.input<AnswerSchemas[Answer]>>;
};

/** Defines a route. Its handler takes what the schemas of the route read and returns what its answer schema says. */
export function defineRoute<
  Answer extends AnswerName,
  Query extends z.ZodObject = never,
  Body extends z.ZodType = never,
>(row: RouteRow<Query, Body, Answer>): RouteRow<Query, Body, Answer> & Route {
  return row as RouteRow<Query, Body, Answer> & Route;
}

export function createProblem(
  status: number,
  code: string,
  detail: string,
  hint: string,
  members: object = {},
): ControlAnswer {
  return {
    status,
    isProblem: true,
    body: { type: 'about:blank', title: code, status, code, detail, hint, ...members },
  };
}
