import { isAmbitError } from '../errors.ts';
import type { Operator } from '../gateway/operator.ts';
import { asAmbitError } from '../gateway/refusal.ts';
import { routes } from './routes.ts';

const known = routes.map((route) => {
  const text = route.path.replaceAll('.', '\\.').replace('{id}', '([^/]+)');
  return { ...route, pattern: new RegExp(`^${text}$`) };
});

export interface AdminRequest {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer | undefined;
}

export interface AdminAnswer {
  readonly status: number;
  readonly body?: unknown;
  /** The body is `application/problem+json`. */
  readonly problem?: boolean;
}

/**
 * Plain data in, plain data out: whatever carries it, the control socket or HTTP, only translates. `address` is where
 * clients reach the gateway, if it listens.
 */
export async function handleAdmin(gateway: Operator, request: AdminRequest, address?: string): Promise<AdminAnswer> {
  const [path = '', query = ''] = request.path.split('?', 2);
  const fitting = known.filter(({ pattern }) => pattern.test(path));
  const route = fitting.find((each) => each.method === request.method);
  if (fitting.length === 0) return problem(404, 'NOT_FOUND', 'There is nothing at this address.', 'See the reference.');
  if (route === undefined) return problem(405, 'METHOD_NOT_ALLOWED', 'This address does not take that method.', '');
  try {
    const parameter = decodeURIComponent(route.pattern.exec(path)?.[1] ?? '');
    return await route.handle(gateway, {
      parameter,
      query: new URLSearchParams(query),
      body: readJson(request.body),
      address,
    });
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof URIError) {
      return problem(400, 'REQUEST_INVALID', 'The request cannot be read.', 'Send JSON.');
    }
    const refusal = asAmbitError(error);
    if (!isAmbitError(error)) {
      gateway.log.warn('unexpected failure', { error: String((error as Error)?.stack ?? error) });
    }
    return problem(refusal.row.http, refusal.code, refusal.message, refusal.hint);
  }
}

function readJson(body: Buffer | undefined): unknown {
  return body === undefined || body.length === 0 ? {} : (JSON.parse(body.toString('utf8')) as unknown);
}

export function problem(status: number, code: string, detail: string, hint: string): AdminAnswer {
  return { status, problem: true, body: { type: 'about:blank', title: code, status, code, detail, hint } };
}
