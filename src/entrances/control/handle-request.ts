import { z } from 'zod';
import { AmbitError, isAmbitError } from '../../errors.ts';
import type { Operator } from '../../gateway/gateway.ts';
import { asAmbitError } from '../../gateway/refusal.ts';
import { type ControlAnswer, createProblem, DetailedProblemError, type Route } from './route.ts';
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
}

/** Answers a request to the control API. `address` is the address of the gateway, if it listens. */
export async function handleControlRequest(
  gateway: Operator,
  request: ControlRequest,
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
  try {
    const parameter = decodeURIComponent(pattern.exec(path)?.[1] ?? '');
    const given = readJson(request.body);
    const query = route.query === undefined ? undefined : readQuery(route.query, new URLSearchParams(search));
    const body = readBySchema(route.body ?? noFields, given);
    const answer = await route.handle(gateway, { parameter, query, body, address } as Parameters<Route['handle']>[1]);
    return { status: route.status ?? 200, body: answer };
  } catch (error) {
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
