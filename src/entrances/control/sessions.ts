import { AmbitError } from '../../errors.ts';
import type { Operator } from '../../gateway/operator/operator.ts';
import { anonymousUser } from '../../identity/principal.ts';
import { isGivenId, type Session, viewOf } from '../../sessions/session.ts';
import type { SessionRecord } from '../../stores/record.ts';
import type { callsQuery, draft, narrowing, sessionsQuery } from './requests.ts';
import type { Asked } from './route.ts';

export async function createSession(gateway: Operator, { body }: Asked<{ body: typeof draft }>) {
  if (body.userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', { what: `No session can be opened for a user named "${anonymousUser}".` });
  }
  const { parentId, ...rest } = body;
  const parent = parentId === undefined ? {} : { parentId: (await foundRecord(gateway, parentId)).id };
  const { record, token } = await gateway.openSession({ ...rest, ...parent });
  return { ...viewOf(record), token };
}

/** Oldest first; `next` names the page after, for `after`. */
export async function listSessions(gateway: Operator, { query }: Asked<{ query: typeof sessionsQuery }>) {
  const { user, workspace, parent, ...page } = query;
  const filter = {
    ...(user === undefined ? {} : { userId: user }),
    ...(workspace === undefined ? {} : { workspaceId: workspace }),
    ...(parent === undefined ? {} : { parentId: parent }),
  };
  const { sessions, next } = await gateway.sessions.list(filter, page);
  return { sessions: sessions.map(viewOf), next };
}

export async function showSession(gateway: Operator, { parameter }: Asked) {
  const record = await foundRecord(gateway, parameter);
  const usage = await gateway.usage(record.id);
  const sandbox = record.trustLevel === 'direct' ? null : await gateway.sandbox();
  return { ...viewOf(record), ...(usage === undefined ? {} : { usage }), sandbox };
}

export async function endSession(gateway: Operator, { parameter }: Asked) {
  const record = await foundRecord(gateway, parameter);
  if (!(await gateway.sessions.end(record.id))) throw notFound();
  return { ...viewOf(record), ended: true as const };
}

export async function restrictSession(gateway: Operator, { parameter, body }: Asked<{ body: typeof narrowing }>) {
  const { id } = await foundRecord(gateway, parameter);
  await gateway.restrictSession(id, body);
  return viewOf(await foundRecord(gateway, id));
}

/** Newest first, from the journal of this gateway; of one that is gone too, for whoever knows its id. */
export async function listCalls(gateway: Operator, { parameter, query }: Asked<{ query: typeof callsQuery }>) {
  const isGone = isGivenId(parameter) && (await gateway.sessions.whyGone(parameter)) !== undefined;
  const id = isGone ? parameter : (await foundRecord(gateway, parameter)).id;
  return gateway.calls(id, query);
}

async function foundRecord(gateway: Operator, reference: string): Promise<SessionRecord> {
  const record = await gateway.sessions.find(reference);
  if (record === undefined) throw notFound();
  return record;
}

/** As this process holds it, for those who decide on it. */
export async function heldSession(gateway: Operator, reference: string): Promise<Session> {
  const session = gateway.sessions.get((await foundRecord(gateway, reference)).id);
  if (session === undefined) throw notFound();
  return session;
}

export function notFound(what = 'No live session has that id, name or unique prefix.'): AmbitError {
  return new AmbitError('SESSION_NOT_FOUND', { what });
}
