import type { Operator } from '../gateway/operator.ts';
import { listCredentials, removeCredential, setCredential } from './credentials.ts';
import { explainCall } from './explain-call.ts';
import { diffFolder, discardFolder, mergeFolder } from './folders.ts';
import type { AdminAnswer } from './handle.ts';
import { completeLogin, listLogins, removeLogin, startLogin } from './logins.ts';
import { openApi } from './openapi.ts';
import {
  addUser,
  changeUser,
  createKey,
  listKeys,
  listTeams,
  listUsers,
  removeUser,
  revokeKey,
  rotateKey,
  showKey,
  showUser,
} from './people.ts';
import {
  addObjective,
  listObjectives,
  listPolicies,
  previewPolicies,
  removeObjective,
  removePolicy,
  setPolicy,
} from './policies.ts';
import { resolveSession, resolveViaGateway } from './servers.ts';
import { createSession, endSession, listCalls, listSessions, restrictSession, showSession } from './sessions.ts';

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
  /** With the name of its parameter in braces. */
  readonly path: string;
  readonly handle: (gateway: Operator, asked: Asked) => AdminAnswer | Promise<AdminAnswer>;
}

const sessions = '/api/v1/sessions';
const credentials = '/api/v1/credentials';
const users = '/api/v1/users';
const keys = '/api/v1/keys';
const logins = '/api/v1/logins';
const policies = '/api/v1/policies';
const objectives = '/api/v1/objectives';

/** The table of contents of the control API; beside it stands the stream of events, which is no question. */
export const routes: readonly Route[] = [
  { method: 'GET', path: sessions, handle: listSessions },
  { method: 'POST', path: sessions, handle: createSession },
  { method: 'GET', path: `${sessions}/{id}`, handle: showSession },
  { method: 'PATCH', path: `${sessions}/{id}`, handle: restrictSession },
  { method: 'DELETE', path: `${sessions}/{id}`, handle: endSession },
  { method: 'GET', path: `${sessions}/{id}/servers`, handle: resolveSession },
  { method: 'POST', path: `${sessions}/{id}/servers`, handle: resolveViaGateway },
  { method: 'GET', path: `${sessions}/{id}/calls`, handle: listCalls },
  { method: 'POST', path: `${sessions}/{id}/explain`, handle: explainCall },
  { method: 'GET', path: `${sessions}/{id}/diff`, handle: diffFolder },
  { method: 'POST', path: `${sessions}/{id}/merge`, handle: mergeFolder },
  { method: 'DELETE', path: `${sessions}/{id}/folder`, handle: discardFolder },
  { method: 'GET', path: credentials, handle: listCredentials },
  { method: 'POST', path: credentials, handle: setCredential },
  { method: 'DELETE', path: credentials, handle: removeCredential },
  { method: 'GET', path: users, handle: listUsers },
  { method: 'POST', path: users, handle: addUser },
  { method: 'GET', path: `${users}/{id}`, handle: showUser },
  { method: 'PATCH', path: `${users}/{id}`, handle: changeUser },
  { method: 'DELETE', path: `${users}/{id}`, handle: removeUser },
  { method: 'GET', path: '/api/v1/teams', handle: listTeams },
  { method: 'GET', path: keys, handle: listKeys },
  { method: 'POST', path: keys, handle: createKey },
  { method: 'GET', path: `${keys}/{id}`, handle: showKey },
  { method: 'DELETE', path: `${keys}/{id}`, handle: revokeKey },
  { method: 'POST', path: `${keys}/{id}/rotate`, handle: rotateKey },
  { method: 'GET', path: logins, handle: listLogins },
  { method: 'POST', path: logins, handle: startLogin },
  { method: 'DELETE', path: logins, handle: removeLogin },
  { method: 'POST', path: `${logins}/complete`, handle: completeLogin },
  { method: 'GET', path: policies, handle: listPolicies },
  { method: 'POST', path: policies, handle: setPolicy },
  { method: 'DELETE', path: policies, handle: removePolicy },
  { method: 'GET', path: `${policies}/effective`, handle: previewPolicies },
  { method: 'GET', path: objectives, handle: listObjectives },
  { method: 'POST', path: objectives, handle: addObjective },
  { method: 'DELETE', path: objectives, handle: removeObjective },
  { method: 'GET', path: '/api/v1/openapi.json', handle: () => ({ status: 200, body: openApi() }) },
];

export const eventsPath = '/api/v1/events';
