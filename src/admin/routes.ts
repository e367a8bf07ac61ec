import type { Gateway } from '../gateway/gateway.ts';
import { listCredentials, removeCredential, setCredential } from './credentials.ts';
import { explainCall } from './explain-call.ts';
import type { AdminAnswer } from './handle.ts';
import { resolveSession, resolveViaGateway } from './servers.ts';
import { createSession, endSession, listSessions, restrictSession, showSession } from './sessions.ts';

export interface Asked {
  /** The part of the path that names one of them. */
  readonly parameter: string;
  readonly query: URLSearchParams;
  readonly body: unknown;
  /** Where clients reach the gateway, if it listens. */
  readonly address: string | undefined;
}

export interface Route {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  readonly path: RegExp;
  readonly handle: (gateway: Gateway, asked: Asked) => AdminAnswer | Promise<AdminAnswer>;
}

/** The table of contents of the control API. */
export const routes: readonly Route[] = [
  { method: 'GET', path: /^\/api\/v1\/sessions$/, handle: listSessions },
  { method: 'POST', path: /^\/api\/v1\/sessions$/, handle: createSession },
  { method: 'GET', path: /^\/api\/v1\/sessions\/([^/]+)$/, handle: showSession },
  { method: 'PATCH', path: /^\/api\/v1\/sessions\/([^/]+)$/, handle: restrictSession },
  { method: 'DELETE', path: /^\/api\/v1\/sessions\/([^/]+)$/, handle: endSession },
  { method: 'GET', path: /^\/api\/v1\/sessions\/([^/]+)\/servers$/, handle: resolveSession },
  { method: 'POST', path: /^\/api\/v1\/sessions\/([^/]+)\/servers$/, handle: resolveViaGateway },
  { method: 'POST', path: /^\/api\/v1\/sessions\/([^/]+)\/explain$/, handle: explainCall },
  { method: 'GET', path: /^\/api\/v1\/credentials$/, handle: listCredentials },
  { method: 'POST', path: /^\/api\/v1\/credentials$/, handle: setCredential },
  { method: 'DELETE', path: /^\/api\/v1\/credentials$/, handle: removeCredential },
];
