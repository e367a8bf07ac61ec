import { z } from 'zod';
import { createOpenApiDocument } from './openapi.ts';
import { type AnswerSchemas, defineRoute, type RouteDescription } from './route.ts';
import { configurationRoutes } from './routes/configuration.ts';
import { consoleRoutes } from './routes/consoles.ts';
import { credentialRoutes, loginRoutes } from './routes/credentials.ts';
import { folderRoutes } from './routes/folders.ts';
import { peopleRoutes } from './routes/people.ts';
import { policyRoutes } from './routes/policies.ts';
import { serverAdminRoutes } from './routes/server-admin.ts';
import { serverRoutes } from './routes/servers.ts';
import { sessionDetailRoutes } from './routes/session-details.ts';
import { sessionListRoutes } from './routes/session-lists.ts';
import { sessionRoutes } from './routes/sessions.ts';
import { statisticsRoutes } from './routes/statistics.ts';

/**
 * All routes of the control API. A route holds everything about its address: it reads requests, types answers, and the
 * OpenAPI document, the reference page and the types of the command line are made from it.
 */
export const routes = {
  ...sessionListRoutes,
  ...sessionRoutes,
  ...sessionDetailRoutes,
  ...folderRoutes,
  ...credentialRoutes,
  ...peopleRoutes,
  ...loginRoutes,
  ...policyRoutes,
  ...serverRoutes,
  ...consoleRoutes,
  ...serverAdminRoutes,
  ...configurationRoutes,
  ...statisticsRoutes,
  'GET /api/v1/openapi.json': defineRoute({
    role: 'viewer',
    summary: 'Returns the OpenAPI description of the control API',
    returns: 'OpenAPI 3.1 document',
    answer: 'openApi',
    handle: describeApi,
  }),
};

export const eventsPath = '/api/v1/events';
export const stopPath = '/api/v1/stop';
const followedLog = /^\/api\/v1\/servers\/[^/]+\/logs\?(?:.*&)?follow=true(?:&|$)/;

/** Whether a GET of this address is answered by a stream that does not end by itself. */
export function isStreamAddress(address: string): boolean {
  return address.split('?', 1)[0] === eventsPath || followedLog.test(address);
}

/** Whether the event stream at this address also reports what sessions do. */
export function wantsActivity(address: string): boolean {
  return new URLSearchParams(address.split('?', 2)[1]).get('activity') === 'true';
}

/** The event stream is described here and served apart, because it has no single answer. */
export const eventsRoute: RouteDescription = {
  role: 'viewer',
  summary: 'Streams session events (server-sent events)',
  description: 'The types and reasons are explained under "Events" on the page "HTTP endpoints".',
  query: z.object({
    activity: z
      .enum(['true', 'false'])
      .exactOptional()
      .describe('With `true`, the stream also reports what sessions do, and the load of the gateway.'),
  }),
  headers: { 'Last-Event-ID': 'Id of the last received event. The stream starts with the events after it.' },
  returns: 'A stream of events. Type of the data of each event',
  answer: 'eventData',
  type: 'text/event-stream',
};

/** The end of the gateway is served apart, because only the control socket takes this request. */
export const stopRoute: RouteDescription = {
  role: 'admin',
  summary: 'Stops the gateway, as the signal TERM does: running calls can finish',
  description: 'Only available on the control socket; over HTTP the request is refused.',
  returns: 'The process that is ending',
  answer: 'stopping',
};

let openApi: Promise<Record<string, unknown>> | undefined;

/** Creates the OpenAPI document on first use. */
export function describeApi(): Promise<Record<string, unknown>> {
  openApi ??= createOpenApiDocument({
    ...routes,
    [`GET ${eventsPath}`]: eventsRoute,
    [`POST ${stopPath}`]: stopRoute,
  });
  return openApi;
}

/** The name of a route, such as `GET /api/v1/sessions`. */
export type RouteName = keyof typeof routes;
type RouteNamed<Name extends RouteName> = (typeof routes)[Name];
export type AnswerOf<Name extends RouteName> = z.output<AnswerSchemas[RouteNamed<Name>['answer']]>;

/** Allows undefined for optional members, because JSON leaves them out. */
type WithUndefined<T> = { [Key in keyof T]: object extends Pick<T, Key> ? T[Key] | undefined : T[Key] };
type InputOf<Schema> = Schema extends z.ZodType ? WithUndefined<z.input<Schema>> : undefined;

/** The data of the events of the stream. */
export type SessionEventData = z.output<AnswerSchemas['event']>;
export type ActivityEventData = z.output<AnswerSchemas['activityEvent']>;
export type GatewayEventData = z.output<AnswerSchemas['gatewayEvent']>;

/** The parts of a request to a route. */
export interface RequestOf<Name extends RouteName> {
  readonly id?: Name extends `${string}{id}${string}` ? string : undefined;
  readonly query?: InputOf<NonNullable<RouteNamed<Name>['query']>>;
  readonly body?: InputOf<NonNullable<RouteNamed<Name>['body']>>;
}
