import type { ActingSession } from '../../rules/session-base.ts';
import { isObject } from './call.ts';
import { trustLevelOf } from './context.ts';
import { Refusal } from './refusal.ts';

/** What a token says, each member of the kind it has to be. */
export interface Claims extends Omit<ActingSession, 'id'> {
  readonly issuer: string;
  readonly audience: string;
  /** Seconds since 1970, as in the token. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** The id of the token. */
  readonly id: string;
  readonly sessionId: string;
  readonly correlationId: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly argumentsDigest: string | undefined;
  /** The arguments could not be hashed when the token was made, and are not bound. */
  readonly argumentsRaw: boolean;
}

type Members = Readonly<Record<string, unknown>>;

export function readClaims(token: Members): Claims {
  const facts = isObject(token['tctx']) ? token['tctx'] : invalid('tctx');
  const actor = token['act'];
  if (actor !== undefined && actor !== null && !isObject(actor)) invalid('act');
  for (const name of ['txn', 'req_wl', 'scope']) text(token, name);
  return {
    issuer: text(token, 'iss'),
    audience: text(token, 'aud'),
    issuedAt: seconds(token, 'iat'),
    expiresAt: seconds(token, 'exp'),
    id: text(token, 'jti'),
    userId: text(token, 'sub'),
    agentId: isObject(actor) ? optional(actor, 'sub', 'act.sub') : undefined,
    sessionId: text(facts, 'sessionId'),
    correlationId: text(facts, 'correlationId'),
    workspaceId: optional(facts, 'workspaceId'),
    trustLevel: trustLevelOf(facts['trustLevel']) ?? invalid('tctx.trustLevel'),
    permissions: permissionsOf(facts['permissions']),
    method: text(facts, 'method'),
    name: optional(facts, 'name'),
    argumentsDigest: optional(facts, 'argsSha256'),
    argumentsRaw: facts['argsRaw'] === true,
  };
}

function text(members: Members, name: string): string {
  const value = members[name];
  return typeof value === 'string' && value !== '' ? value : invalid(name);
}

function optional(members: Members, name: string, shown = name): string | undefined {
  const value = members[name];
  if (value === undefined || value === null || value === '') return undefined;
  return typeof value === 'string' ? value : invalid(shown);
}

function seconds(members: Members, name: string): number {
  const value = members[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : invalid(name);
}

function permissionsOf(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : invalid('tctx.permissions');
  return list.every((item) => typeof item === 'string') ? (list as string[]) : invalid('tctx.permissions');
}

function invalid(name: string): never {
  throw new Refusal('CLAIMS_INVALID', `The claim "${name}" of the token is missing or of the wrong kind.`);
}
