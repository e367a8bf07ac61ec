import type { ActingSession } from '../../rules/session-base.ts';
import { type Call, isObject } from './call.ts';
import { argumentsDigest } from './canonical-arguments.ts';
import { quoted, Refusal, trustLevelOf } from './context.ts';

/** No context lives longer; a token that says otherwise was not made by Ambit's rules. */
const maxLifetime = 60;

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

export function checkTimes(claims: Claims, now: number, skew: number): void {
  const { issuedAt, expiresAt } = claims;
  const life = expiresAt - issuedAt;
  // Written so that a number that is none fails each of them.
  if (!(life > 0 && life <= maxLifetime)) {
    throw new Refusal('TOKEN_LIFETIME', `The token lives for ${life} seconds; at most ${maxLifetime} are accepted.`);
  }
  if (!(issuedAt <= now / 1000 + skew)) {
    throw new Refusal(
      'TOKEN_NOT_YET_VALID',
      'The token comes from the future: compare the clocks of the two machines.',
    );
  }
  if (!(expiresAt > now / 1000 - skew)) throw new Refusal('TOKEN_EXPIRED', 'The token has expired.');
}

/** `expected` is undefined where nobody said who this server is. */
export function checkAudience(claims: Claims, expected: readonly string[] | undefined, call: Call): void {
  const { audience } = claims;
  if (expected === undefined && call.transport === 'http') {
    throw new Refusal(
      'AUDIENCE_UNKNOWN',
      'This server does not know who it is: give the option "audience" or set AMBIT_AUDIENCE to its address as Ambit has it.',
    );
  }
  // Whoever holds the pipe of this process is who started it, so any stdio server's name may be ours.
  const meant = expected?.some((name) => sameAudience(name, audience)) ?? /^ambit:server:./.test(audience);
  if (!meant)
    throw new Refusal('AUDIENCE_MISMATCH', `The token is meant for ${quoted(audience)}, not for this server.`);
}

function sameAudience(one: string, other: string): boolean {
  return (
    one === other ||
    (/^https?:/i.test(one) && URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href)
  );
}

/** The token speaks of one request; this has to be it. */
export function checkBinding(claims: Claims, call: Call): void {
  if (call.method === undefined) {
    throw new Refusal(
      'CALL_UNKNOWN',
      'It is not known which call this is: use secureServer() or withSession(), or give method, name and arguments.',
    );
  }
  if (claims.method !== call.method) {
    throw new Refusal(
      'METHOD_MISMATCH',
      `The token is for ${quoted(claims.method)}, the call is ${quoted(call.method)}.`,
    );
  }
  const isTool = call.method === 'tools/call';
  if (isTool && call.name === undefined) {
    throw new Refusal('CALL_UNKNOWN', 'It is not known which tool this is: give its name.');
  }
  if (claims.name === undefined ? isTool : claims.name !== call.name) {
    throw new Refusal(
      'NAME_MISMATCH',
      `The token is for ${quoted(claims.name)}, the call is for ${quoted(call.name)}.`,
    );
  }
  if (claims.argumentsRaw) return;
  if (claims.argumentsDigest === undefined ? isTool : claims.argumentsDigest !== argumentsDigest(call.arguments)) {
    throw new Refusal(
      'ARGUMENTS_MISMATCH',
      'The token is for other arguments. Where the schema of the tool fills in defaults or drops members, use secureServer(), which sees the arguments as they came.',
    );
  }
}
