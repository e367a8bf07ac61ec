import { z } from 'zod';
import { AmbitError } from '../errors.ts';
import type { Gateway } from '../gateway/gateway.ts';
import { anonymousUser } from '../identity/principal.ts';
import type { Session, SessionDraft } from '../sessions/session.ts';
import { normalizeTrust } from '../trust/trust-level.ts';
import type { AdminAnswer } from './handle.ts';

const narrowingShape = z.strictObject({
  trustLevel: z.string().optional(),
  ttlSeconds: z.number().optional(),
  servers: z.array(z.string()).optional(),
  permissions: z.array(z.string()).optional(),
});

const draftShape = z.strictObject({
  ...narrowingShape.shape,
  name: z.string().optional(),
  userId: z.string().optional(),
  agentId: z.string().optional(),
  workspaceId: z.string().optional(),
});

export function createSession(gateway: Gateway, _parameter: string, body: unknown): AdminAnswer {
  const { session, token } = gateway.openSession(readDraft(body));
  return { status: 201, body: { ...gateway.sessions.view(session), token } };
}

export function listSessions(gateway: Gateway): AdminAnswer {
  return { status: 200, body: { sessions: gateway.sessions.list() } };
}

export function showSession(gateway: Gateway, reference: string): AdminAnswer {
  const view = gateway.sessions.view(foundSession(gateway, reference));
  return { status: 200, body: { ...view, sandbox: view.trustLevel === 'direct' ? null : gateway.sandbox() } };
}

export function endSession(gateway: Gateway, reference: string): AdminAnswer {
  const session = foundSession(gateway, reference);
  const view = gateway.sessions.view(session);
  gateway.sessions.end(session.id);
  return { status: 200, body: { ...view, ended: true } };
}

export function restrictSession(gateway: Gateway, reference: string, body: unknown): AdminAnswer {
  const { id } = foundSession(gateway, reference);
  const restricted = gateway.restrictSession(id, withTrust(readBody(narrowingShape, body)));
  return { status: 200, body: gateway.sessions.view(restricted) };
}

export function foundSession(gateway: Gateway, reference: string): Session {
  const session = gateway.sessions.find(reference);
  if (session === undefined) {
    throw new AmbitError('SESSION_NOT_FOUND', { what: 'No live session has that id, name or unique prefix.' });
  }
  return session;
}

function readDraft(body: unknown): SessionDraft {
  const draft = withTrust(readBody(draftShape, body));
  if (draft.userId === anonymousUser) {
    throw new AmbitError('REQUEST_INVALID', { what: `No session can be opened for a user named "${anonymousUser}".` });
  }
  return draft;
}

export function readBody<Shape extends z.ZodType>(shape: Shape, body: unknown): z.output<Shape> {
  const read = shape.safeParse(body);
  if (read.success) return read.data;
  const [issue] = read.error.issues;
  const where = issue?.path.join('.') || 'the body';
  throw new AmbitError('REQUEST_INVALID', { what: `${where}: ${issue?.message ?? 'not valid'}` });
}

/** What was given, with the trust level in the spelling that counts. */
function withTrust<Given extends { readonly trustLevel?: string | undefined }>(given: Given): SessionDraft {
  const trustLevel = given.trustLevel === undefined ? undefined : normalizeTrust(given.trustLevel);
  if (given.trustLevel !== undefined && trustLevel === undefined) {
    throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
  }
  const entries = Object.entries({ ...given, trustLevel }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(entries) as SessionDraft;
}
