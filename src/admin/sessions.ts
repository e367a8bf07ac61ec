import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { anonymousUser } from '../identity/principal.ts';
import type { Session, SessionDraft } from '../sessions/session.ts';
import { normalizeTrust } from '../trust/trust-level.ts';
import type { AdminAnswer } from './handle.ts';

const draftShape = z.strictObject({
  name: z.string().optional(),
  userId: z.string().optional(),
  agentId: z.string().optional(),
  workspaceId: z.string().optional(),
  trustLevel: z.string().optional(),
  ttlSeconds: z.number().optional(),
});

export function createSession(gateway: Gateway, _parameter: string, body: unknown): AdminAnswer {
  const { session, token } = gateway.openSession(readDraft(body));
  return { status: 201, body: { ...gateway.sessions.view(session), token } };
}

export function listSessions(gateway: Gateway): AdminAnswer {
  return { status: 200, body: { sessions: gateway.sessions.list() } };
}

export function showSession(gateway: Gateway, reference: string): AdminAnswer {
  return { status: 200, body: gateway.sessions.view(found(gateway, reference)) };
}

export function endSession(gateway: Gateway, reference: string): AdminAnswer {
  const session = found(gateway, reference);
  const view = gateway.sessions.view(session);
  gateway.sessions.end(session.id);
  return { status: 200, body: { ...view, ended: true } };
}

function found(gateway: Gateway, reference: string): Session {
  const session = gateway.sessions.find(reference);
  if (session === undefined) {
    throw new AmbitError('SESSION_NOT_FOUND', { what: 'No live session has that id, name or unique prefix.' });
  }
  return session;
}

function readDraft(body: unknown): SessionDraft {
  const read = draftShape.safeParse(body);
  if (!read.success) {
    const [issue] = read.error.issues;
    const where = issue?.path.join('.') || 'the body';
    throw new AmbitError('REQUEST_INVALID', { what: `${where}: ${issue?.message ?? 'not valid'}` });
  }
  const { trustLevel, ...rest } = read.data;
  const trust = trustLevel === undefined ? undefined : normalizeTrust(trustLevel);
  if (trustLevel !== undefined && trust === undefined) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
  }
  if (rest.userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', { what: `No session can be opened for a user named "${anonymousUser}".` });
  }
  const given = Object.entries({ ...rest, trustLevel: trust }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as SessionDraft;
}
