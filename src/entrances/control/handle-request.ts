import { z } from 'zod';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Operator } from '../../gateway/gateway.ts';
import { asAmbitError } from '../../gateway/refusal.ts';
import {
  type ControlAnswer,
  type ControlCaller,
  createProblem,
  DetailedProblemError,
  hasRole,
  type Route,
} from './route.ts';
import { newConsole, redeemCode } from './routes/consoles.ts';
import { routes } from './routes.ts';

/** The exact paths come first: `/sessions/ended` also fits `/sessions/{id}`. */
const routeTable = Object.entries<Route>(routes)
  .map(([address, route]) => {
    const [method = '', path = ''] = address.split(' ');
    const text = path.replaceAll('.', '\\.').replace('{id}', '([^/]+)');
    return { method, route, isExact: !path.includes('{id}'), pattern: new RegExp(`^${text}$`) };
  })
  .sort((one, other) => Number(other.isExact) - Number(one.isExact));

/** The body of a request to a route that takes none. A field would have no effect, so it is refused. */
const noFields = z.strictObject({});

export interface ControlRequest {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer | undefined;
  /** Aborted when the sender has left. */
  readonly signal?: AbortSignal;
}

/** Answers a request to the control API. `address` is the address of the gateway, if it listens. */
export async function handleControlRequest(
  gateway: Operator,
  request: ControlRequest,
  caller: ControlCaller,
  address?: string,
): Promise<ControlAnswer> {
  const [path = '', search = ''] = request.path.split('?', 2);
  const fitting = routeTable.filter(({ pattern }) => pattern.test(path));
  const found = fitting.find(({ method }) => method === request.method);
  if (fitting.length === 0)
    return createProblem(
      404,
      'NOT_FOUND',
      'There is nothing at this address.',
      'GET /api/v1/openapi.json lists all addresses.',
    );
  if (found === undefined)
    return createProblem(405, 'METHOD_NOT_ALLOWED', 'This address does not support that method.', '');
  const { route, pattern } = found;
  if (!hasRole(caller, route.role)) return refuseRole(caller);
  try {
    const parameter = decodeURIComponent(pattern.exec(path)?.[1] ?? '');
    const given = readJson(request.body);
    const query = route.query === undefined ? undefined : readQuery(route.query, new URLSearchParams(search));
    const body = readBySchema(route.body ?? noFields, given);
    const asked = { parameter, query, body, address, caller, signal: request.signal };
    const answer = await route.handle(gateway, asked as Parameters<Route['handle']>[1]);
    return { status: route.status ?? 200, body: answer };
  } catch (error) {
    return describeProblem(gateway, error);
  }
}

/** Answers a request without a credential that brings a sign-in code. `from` is the network address of its sender. */
export function answerSignIn(gateway: Operator, body: Buffer, from: string | undefined): ControlAnswer {
  try {
    const { code } = readBySchema(newConsole, readJson(body)) as z.output<typeof newConsole>;
    return { status: 201, body: redeemCode(gateway, code, from) };
  } catch (error) {
    return describeProblem(gateway, error);
  }
}

function describeProblem(gateway: Operator, error: unknown): ControlAnswer {
  if (error instanceof SyntaxError || error instanceof URIError) {
    return createProblem(400, 'REQUEST_INVALID', 'The request body is not valid JSON.', 'Send JSON.');
  }
  const refusal = asAmbitError(error);
  if (!isAmbitError(error)) {
    gateway.log.warn('unexpected failure', { error: String((error as Error)?.stack ?? error) });
  }
  const members = error instanceof DetailedProblemError ? error.members : {};
  return createProblem(refusal.row.http, refusal.code, refusal.message, refusal.hint, members);
}

/** Refuses a request that needs a higher role. */
export function refuseRole({ role }: ControlCaller): ControlAnswer {
  const { row, code } = new AmbitError('PERMISSION_DENIED');
  const what = `The role "${role}" may read, but it may not do this.`;
  return createProblem(row.http, code, what, 'Sign in with the role "admin": run "ambit open" on the gateway.');
}

function readJson(body: Buffer | undefined): unknown {
  return body === undefined || body.length === 0 ? {} : (JSON.parse(body.toString('utf8')) as unknown);
}

/** Reads the first value of each name in the schema. Other names are ignored. */
function readQuery(schema: z.ZodObject, given: URLSearchParams): unknown {
  const pairs = Object.keys(schema.shape).map((name) => [name, given.get(name)] as const);
  return readBySchema(schema, Object.fromEntries(pairs.filter(([, value]) => value !== null)));
}

function readBySchema(schema: z.ZodType, given: unknown): unknown {
  const read = schema.safeParse(given);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const where = issue?.path.join('.') || 'the body';
  throw new AmbitError('REQUEST_INVALID', { what: `${where}: ${issue?.message ?? 'not valid'}` });
}
