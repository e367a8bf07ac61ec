import type { Gateway } from '../gateway/gateway.ts';
import type { AdminAnswer } from './handle.ts';
import { createSession, endSession, listSessions, showSession } from './sessions.ts';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: RegExp;
  readonly handle: (gateway: Gateway, parameter: string, body: unknown) => AdminAnswer;
}

/** The table of contents of the control API. */
export const routes: readonly Route[] = [
  { method: 'GET', path: /^\/api\/v1\/sessions$/, handle: listSessions },
  { method: 'POST', path: /^\/api\/v1\/sessions$/, handle: createSession },
  { method: 'GET', path: /^\/api\/v1\/sessions\/([^/]+)$/, handle: showSession },
  { method: 'DELETE', path: /^\/api\/v1\/sessions\/([^/]+)$/, handle: endSession },
];
