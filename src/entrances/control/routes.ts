import type { z } from 'zod';
import { listCredentials, removeCredential, setCredential } from './credentials.ts';
import { explainCall } from './explain-call.ts';
import { diffFolder, discardFolder, mergeFolder } from './folders.ts';
import { completeLogin, listLogins, removeLogin, startLogin } from './logins.ts';
import { openApiDocument } from './openapi.ts';
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
import * as requests from './requests.ts';
import { type Answers, type Description, route } from './route.ts';
import { resolveSession, resolveViaGateway } from './servers.ts';
import { createSession, endSession, listCalls, listSessions, restrictSession, showSession } from './sessions.ts';

const ofSession = 'The id, a unique name, or a unique prefix of the id.';
const ofFolder = 'The session: its id, a unique name or prefix; the whole id of one that has ended.';
const ofUser = 'The name of the user.';
const ofKey = 'The id, or a beginning of it that fits only one.';

/**
 * The table of contents of the control API. A row says all there is to say about its address: requests are read by it,
 * answers are typed by it, and the OpenAPI document, the reference page and the types of the command line come from it.
 */
export const routes = {
  'GET /api/v1/sessions': route({
    summary: 'Lists the live sessions, the oldest first',
    query: requests.sessionsQuery,
    returns: 'A page of sessions',
    answer: 'sessionsPage',
    handle: listSessions,
  }),
  'POST /api/v1/sessions': route({
    summary: 'Opens a session; its token is shown only here',
    description: 'More trust than the bounds allow is refused, not lowered.',
    body: requests.draft,
    status: 201,
    returns: 'The session and its token',
    answer: 'openedSession',
    handle: createSession,
  }),
  'GET /api/v1/sessions/{id}': route({
    summary: 'Shows a session, with what it has used and what it runs in',
    parameter: ofSession,
    returns: 'The session',
    answer: 'sessionDetails',
    handle: showSession,
  }),
  'PATCH /api/v1/sessions/{id}': route({
    summary: 'Narrows a session, and ends what no longer fits',
    description: 'Whatever would widen it is refused, and then nothing of the request holds.',
    parameter: ofSession,
    body: requests.narrowing,
    returns: 'The session as it is now',
    answer: 'session',
    handle: restrictSession,
  }),
  'DELETE /api/v1/sessions/{id}': route({
    summary: 'Ends a session, and those it opened',
    parameter: ofSession,
    returns: 'The session as it was',
    answer: 'endedSession',
    handle: endSession,
  }),
  'GET /api/v1/sessions/{id}/servers': route({
    summary: 'Lists the servers a session may use, for an agent SDK, and why others are out',
    parameter: ofSession,
    returns: 'mcpServers, and how the session finds each server',
    answer: 'sessionServers',
    handle: resolveSession,
  }),
  'POST /api/v1/sessions/{id}/servers': route({
    summary: 'Lists those servers with addresses of the gateway and a further token',
    description: 'Ambit\u2019s own tools are among them where rules leave any. The token is another one each time.',
    parameter: ofSession,
    body: requests.via,
    status: 201,
    returns: 'mcpServers, and how the session finds each server',
    answer: 'sessionServers',
    handle: resolveViaGateway,
  }),
  'GET /api/v1/sessions/{id}/calls': route({
    summary: 'Lists the calls of a session, the newest first, from the journal of this gateway',
    description:
      'One page looks through 16 MB of the journal. A session that is gone has its calls here too, by its whole id.',
    parameter: ofSession,
    query: requests.callsQuery,
    returns: 'A page of calls; it may be empty and not the last',
    answer: 'callsPage',
    handle: listCalls,
  }),
  'POST /api/v1/sessions/{id}/explain': route({
    summary: 'Says what a call would get, by which rule, from which claims',
    parameter: ofSession,
    body: requests.callToExplain,
    returns: 'The decision',
    answer: 'callExplanation',
    handle: explainCall,
  }),
  'GET /api/v1/sessions/{id}/diff': route({
    summary: 'Shows what a session changed in the folder it has for itself, and was not merged',
    parameter: ofFolder,
    query: requests.folderQuery,
    returns: 'The files and a patch',
    answer: 'folderDiff',
    handle: diffFolder,
  }),
  'POST /api/v1/sessions/{id}/merge': route({
    summary: 'Brings what a session changed into its workspace: all of it or, where anything conflicts, nothing',
    parameter: ofFolder,
    body: requests.mergeRequest,
    returns: 'What became of each file',
    answer: 'merge',
    refusals: { 409: { returns: 'Files conflict; nothing was changed', answer: 'mergeConflict' } },
    handle: mergeFolder,
  }),
  'DELETE /api/v1/sessions/{id}/folder': route({
    summary: 'Removes the folder of a session that has ended, with what was not merged',
    parameter: ofFolder,
    query: requests.folderQuery,
    returns: 'Which one is gone',
    answer: 'discardedFolder',
    handle: discardFolder,
  }),
  'GET /api/v1/credentials': route({
    summary: 'Lists what servers are given on behalf of users; never the values',
    returns: 'The credentials',
    answer: 'credentials',
    handle: listCredentials,
  }),
  'POST /api/v1/credentials': route({
    summary: 'Keeps a value for a user and a server, sealed',
    body: requests.newCredential,
    returns: 'Which one was set',
    answer: 'setCredential',
    handle: setCredential,
  }),
  'DELETE /api/v1/credentials': route({
    summary: 'Forgets a value',
    body: requests.credentialName,
    returns: 'Whether there was one',
    answer: 'removedCredential',
    handle: removeCredential,
  }),
  'GET /api/v1/users': route({
    summary: 'Lists the users there are, declared or added',
    returns: 'The organisation and its users',
    answer: 'users',
    handle: listUsers,
  }),
  'POST /api/v1/users': route({
    summary: 'Adds a user; one who is there joins the teams named',
    body: requests.newUser,
    returns: 'The user',
    answer: 'user',
    handle: addUser,
  }),
  'GET /api/v1/users/{id}': route({
    summary: 'Shows a user',
    parameter: ofUser,
    returns: 'The user',
    answer: 'user',
    handle: showUser,
  }),
  'PATCH /api/v1/users/{id}': route({
    summary: 'Puts a user into these teams and no others',
    parameter: ofUser,
    body: requests.teamsOfUser,
    returns: 'The user',
    answer: 'user',
    handle: changeUser,
  }),
  'DELETE /api/v1/users/{id}': route({
    summary: 'Removes a user, revokes the keys, and ends the sessions opened with them',
    parameter: ofUser,
    returns: 'How many keys and sessions that were',
    answer: 'removedUser',
    handle: removeUser,
  }),
  'GET /api/v1/teams': route({
    summary: 'Lists the teams there are, and who is in them',
    returns: 'The teams',
    answer: 'teams',
    handle: listTeams,
  }),
  'GET /api/v1/keys': route({
    summary: 'Lists the keys there are; never what proves them',
    query: requests.keysQuery,
    returns: 'The keys',
    answer: 'keys',
    handle: listKeys,
  }),
  'POST /api/v1/keys': route({
    summary: 'Makes a key for a user; it is shown only here',
    body: requests.newKey,
    status: 201,
    returns: 'The key',
    answer: 'mintedKey',
    handle: createKey,
  }),
  'GET /api/v1/keys/{id}': route({
    summary: 'Shows a key',
    parameter: ofKey,
    returns: 'The key',
    answer: 'key',
    handle: showKey,
  }),
  'DELETE /api/v1/keys/{id}': route({
    summary: 'Revokes a key for good, and ends the sessions opened with it',
    parameter: ofKey,
    returns: 'The key, and how many sessions that were',
    answer: 'revokedKey',
    handle: revokeKey,
  }),
  'POST /api/v1/keys/{id}/rotate': route({
    summary: 'Makes another secret for the same key; the one before is taken for as long as is said',
    parameter: ofKey,
    body: requests.rotation,
    status: 201,
    returns: 'The key',
    answer: 'mintedKey',
    handle: rotateKey,
  }),
  'GET /api/v1/logins': route({
    summary: 'Lists who is logged in to which server',
    returns: 'The logins; never tokens',
    answer: 'logins',
    handle: listLogins,
  }),
  'POST /api/v1/logins': route({
    summary: 'Starts a login; the browser of the user goes to the address in the answer',
    body: requests.newLogin,
    status: 201,
    returns: 'Where the browser goes, and where it comes back to',
    answer: 'startedLogin',
    handle: startLogin,
  }),
  'DELETE /api/v1/logins': route({
    summary: 'Ends a login, here and at the authorization server',
    body: requests.loginName,
    returns: 'Whether there was one',
    answer: 'removedLogin',
    handle: removeLogin,
  }),
  'POST /api/v1/logins/complete': route({
    summary: 'Completes a login with the address that the browser was sent back to',
    body: requests.loginCallback,
    returns: 'The login',
    answer: 'login',
    handle: completeLogin,
  }),
  'GET /api/v1/policies': route({
    summary: 'Lists the policies there are; those declared in the configuration are changed only there',
    returns: 'The policies',
    answer: 'policies',
    handle: listPolicies,
  }),
  'POST /api/v1/policies': route({
    summary: 'Sets a policy, in place of one of the same name in the same scope',
    body: requests.newPolicy,
    returns: 'The policy',
    answer: 'policy',
    handle: setPolicy,
  }),
  'DELETE /api/v1/policies': route({
    summary: 'Removes a policy',
    body: requests.policyName,
    returns: 'Whether there was one',
    answer: 'removedPolicy',
    handle: removePolicy,
  }),
  'GET /api/v1/policies/effective': route({
    summary: 'Shows what a user in a workspace gets, and why: every policy weighed, and the block',
    query: requests.effectiveQuery,
    returns: 'Policies with what became of each, objectives, and the block',
    answer: 'effectivePolicies',
    handle: previewPolicies,
  }),
  'GET /api/v1/objectives': route({
    summary: 'Lists the objectives there are',
    returns: 'The objectives',
    answer: 'objectives',
    handle: listObjectives,
  }),
  'POST /api/v1/objectives': route({
    summary: 'Adds an objective',
    body: requests.newObjective,
    status: 201,
    returns: 'The objective, with its id',
    answer: 'objective',
    handle: addObjective,
  }),
  'DELETE /api/v1/objectives': route({
    summary: 'Removes an objective',
    body: requests.objectiveId,
    returns: 'Whether there was one',
    answer: 'removedObjective',
    handle: removeObjective,
  }),
  'GET /api/v1/openapi.json': route({
    summary: 'Describes all of this for programs',
    returns: 'OpenAPI 3.1',
    answer: 'openApi',
    handle: describeApi,
  }),
};

export const eventsPath = '/api/v1/events';

/** The stream of events stands beside the table: it is no question with one answer. */
const events: Description = {
  summary: 'Streams what happens to sessions, as it happens (server-sent events)',
  headers: { 'Last-Event-ID': 'The id of the last event that was heard: what came after it is told first.' },
  returns: 'Events; the data of each is one',
  answer: 'event',
  type: 'text/event-stream',
};

let document: Promise<Record<string, unknown>> | undefined;

/** The OpenAPI document, made when somebody asks for it. */
export function describeApi(): Promise<Record<string, unknown>> {
  document ??= openApiDocument({ ...routes, [`GET ${eventsPath}`]: events });
  return document;
}

/** A row of the table by its name, as `GET /api/v1/sessions`. */
export type RouteName = keyof typeof routes;
type RouteNamed<Name extends RouteName> = (typeof routes)[Name];
export type AnswerOf<Name extends RouteName> = z.output<Answers[RouteNamed<Name>['answer']]>;

/** A value that is not there may be said to be undefined: it does not go into JSON. */
type WithUndefined<T> = { [Key in keyof T]: object extends Pick<T, Key> ? T[Key] | undefined : T[Key] };
type InputOf<Schema> = Schema extends z.ZodType ? WithUndefined<z.input<Schema>> : undefined;

/** The parts of a request to a row. */
export interface RequestOf<Name extends RouteName> {
  readonly id?: Name extends `${string}{id}${string}` ? string : undefined;
  readonly query?: InputOf<NonNullable<RouteNamed<Name>['query']>>;
  readonly body?: InputOf<NonNullable<RouteNamed<Name>['body']>>;
}
