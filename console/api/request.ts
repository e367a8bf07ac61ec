import { effect } from '@preact/signals';
import type { AnswerOf, RequestOf, RouteName } from '../../src/entrances/control/routes.ts';
import { signedIn, signOut } from '../sign-in/signed-in.ts';

export type { AnswerOf, RouteName } from '../../src/entrances/control/routes.ts';

/** An answer other than a success, with the texts of its problem document. */
export class RequestError extends Error {
  readonly status: number;
  readonly code: string;
  readonly hint: string;
  readonly members: Readonly<Record<string, unknown>>;

  constructor(status: number, problem: Readonly<Record<string, unknown>>) {
    const text = (name: string) => (typeof problem[name] === 'string' ? (problem[name] as string) : '');
    super(text('detail') || `The gateway answered with status ${status}.`);
    this.status = status;
    this.code = text('code');
    this.hint = text('hint');
    this.members = problem;
  }
}

type Parts<Name extends RouteName> = RequestOf<Name> & { readonly signal?: AbortSignal };

/** The folder that holds the page, so that a proxy may serve the gateway below a path. */
export const base = new URL('./', location.href.split('#', 1)[0]).href;
/** The same for people and other programs. The gateway has a long name for browsers, which few programs can resolve. */
export const plainBase = base.replace(/^http:\/\/[0-9a-f]{32}\.localhost(?=[:/])/, 'http://localhost');

/** Sends a request to the control API. Its types come from the table of routes. */
export async function request<Name extends RouteName>(name: Name, parts?: Parts<Name>): Promise<AnswerOf<Name>> {
  const { signal, body } = (parts ?? {}) as { signal?: AbortSignal; body?: unknown };
  const [method = 'GET'] = name.split(' ');
  const init: RequestInit = { method, ...(signal === undefined ? {} : { signal }) };
  // The gateway takes changes only as JSON, also those without a body: a form of another page cannot send that.
  if (method !== 'GET') init.headers = { 'content-type': 'application/json' };
  if (body !== undefined) init.body = JSON.stringify(body);
  const response = await send(pathOf(name, parts), init);
  return (await response.json()) as AnswerOf<Name>;
}

/** Writes the path of a route with its parameter and query, from /api on. */
export function pathOf<Name extends RouteName>(name: Name, parts?: RequestOf<Name>): string {
  const [, path = ''] = name.split(' ');
  const { id = '', query = {} } = (parts ?? {}) as { id?: string; query?: Record<string, unknown> };
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== '');
  const search = new URLSearchParams(pairs.map(([key, value]) => [key, String(value)]));
  const filled = path.replace('{id}', encodeURIComponent(id));
  return search.size === 0 ? filled : `${filled}?${search}`;
}

let current = new AbortController();

/** Ends the requests of a sign-in that has ended: an answer must not reach the next one. */
effect(() => {
  const ofSignIn = new AbortController();
  current = ofSignIn;
  return signedIn.value === undefined ? undefined : () => ofSignIn.abort();
});

/**
 * Sends a request with the token of this console, or with a credential that is given. An answer 401 to the token means
 * that the console is signed out.
 */
export async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const token = headers.has('authorization') ? undefined : signedIn.peek()?.token;
  const signals = init.signal == null ? [] : [init.signal];
  if (token !== undefined) {
    headers.set('authorization', `Bearer ${token}`);
    signals.push(current.signal);
  }
  const response = await fetch(new URL(path.replace(/^\//, ''), base), {
    ...init,
    headers,
    signal: AbortSignal.any(signals),
    cache: 'no-store',
    credentials: 'omit',
    redirect: 'error',
    referrerPolicy: 'no-referrer',
  }).catch((error: unknown) => {
    if ((error as Error).name === 'AbortError') throw error;
    throw new RequestError(0, {
      detail: 'The gateway cannot be reached.',
      hint: 'Check that it is running: ambit status',
    });
  });
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as Record<string, unknown>;
  // Another token may have replaced this one meanwhile.
  if (response.status === 401 && token !== undefined && signedIn.peek()?.token === token) {
    signOut('Your sign-in has ended. Sign in again to continue.');
  }
  throw new RequestError(response.status, problem);
}
