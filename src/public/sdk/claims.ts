import type { ActingSession } from '../../rules/session-base.ts';
import { type IncomingCall, isObject } from './call.ts';
import { digestArguments } from './canonical-arguments.ts';
import { parseTrustLevel, quoteValue, refuseContext } from './context.ts';

/** The longest lifetime Ambit gives a token. */
const maxLifetimeSeconds = 60;

/** The claims of a token, with the type of each member checked. */
export interface TokenClaims extends Omit<ActingSession, 'id'> {
  readonly issuer: string;
  readonly audience: string;
  /** Seconds since 1970, as in the token. */
  readonly issuedAt: number;
  readonly expiresAt: number;
  readonly id: string;
  readonly sessionId: string;
  readonly correlationId: string;
  readonly method: string;
  readonly name: string | undefined;
  readonly argumentsDigest: string | undefined;
  /** The arguments could not be hashed when the token was made, and are not bound. */
  readonly argumentsRaw: boolean;
}

type JsonMembers = Readonly<Record<string, unknown>>;

export function readClaims(token: JsonMembers): TokenClaims {
  const facts = isObject(token['tctx']) ? token['tctx'] : throwInvalidClaim('tctx');
  const actor = token['act'];
  if (actor !== undefined && actor !== null && !isObject(actor)) throwInvalidClaim('act');
  for (const name of ['txn', 'req_wl', 'scope']) readText(token, name);
  return {
    issuer: readText(token, 'iss'),
    audience: readText(token, 'aud'),
    issuedAt: readSeconds(token, 'iat'),
    expiresAt: readSeconds(token, 'exp'),
    id: readText(token, 'jti'),
    userId: readText(token, 'sub'),
    agentId: isObject(actor) ? readOptionalText(actor, 'sub', 'act.sub') : undefined,
    sessionId: readText(facts, 'sessionId'),
    correlationId: readText(facts, 'correlationId'),
    workspaceId: readOptionalText(facts, 'workspaceId'),
    trustLevel: parseTrustLevel(facts['trustLevel']) ?? throwInvalidClaim('tctx.trustLevel'),
    permissions: readPermissions(facts['permissions']),
    method: readText(facts, 'method'),
    name: readOptionalText(facts, 'name'),
    argumentsDigest: readOptionalText(facts, 'argsSha256'),
    argumentsRaw: facts['argsRaw'] === true,
  };
}

function readText(members: JsonMembers, name: string): string {
  const value = members[name];
  return typeof value === 'string' && value !== '' ? value : throwInvalidClaim(name);
}

function readOptionalText(members: JsonMembers, name: string, shown = name): string | undefined {
  const value = members[name];
  if (value === undefined || value === null || value === '') return undefined;
  return typeof value === 'string' ? value : throwInvalidClaim(shown);
}

function readSeconds(members: JsonMembers, name: string): number {
  const value = members[name];
  return typeof value === 'number' && Number.isFinite(value) ? value : throwInvalidClaim(name);
}

function readPermissions(value: unknown): readonly string[] {
  if (value === undefined || value === null) return [];
  const list = Array.isArray(value) ? value : throwInvalidClaim('tctx.permissions');
  return list.every((item) => typeof item === 'string') ? (list as string[]) : throwInvalidClaim('tctx.permissions');
}

function throwInvalidClaim(name: string): never {
  refuseContext('CLAIMS_INVALID', `The claim "${name}" of the token is missing or of the wrong kind.`);
}

export function checkTimes(claims: TokenClaims, now: number, skew: number): void {
  const { issuedAt, expiresAt } = claims;
  const life = expiresAt - issuedAt;
  // Each condition is written so that NaN fails it.
  if (!(life > 0 && life <= maxLifetimeSeconds)) {
    refuseContext('TOKEN_LIFETIME', `The token lives for ${life} seconds; at most ${maxLifetimeSeconds} are accepted.`);
  }
  if (!(issuedAt <= now / 1000 + skew)) {
    refuseContext('TOKEN_NOT_YET_VALID', 'The token was issued in the future: compare the clocks of the two machines.');
  }
  if (!(expiresAt > now / 1000 - skew)) refuseContext('TOKEN_EXPIRED', 'The token has expired.');
}

/** Checks the audience; `expected` is undefined if this server was not told its own name. */
export function checkAudience(claims: TokenClaims, expected: readonly string[] | undefined, call: IncomingCall): void {
  const { audience } = claims;
  if (expected === undefined && call.transport === 'http') {
    refuseContext(
      'AUDIENCE_UNKNOWN',
      'This server does not know its own audience: set the option "audience" or AMBIT_AUDIENCE to its address in the configuration of Ambit.',
    );
  }
  // Only the process that started this one can write to its pipe, so any stdio server name may be ours.
  const meant = expected?.some((name) => isSameAudience(name, audience)) ?? /^ambit:server:./.test(audience);
  if (!meant)
    refuseContext('AUDIENCE_MISMATCH', `The token is meant for ${quoteValue(audience)}, not for this server.`);
}

function isSameAudience(one: string, other: string): boolean {
  return (
    one === other ||
    (/^https?:/i.test(one) && URL.canParse(one) && URL.canParse(other) && new URL(one).href === new URL(other).href)
  );
}

/** Checks that the token was made for this very request. */
export function checkBinding(claims: TokenClaims, call: IncomingCall): void {
  if (call.method === undefined) {
    refuseContext(
      'CALL_UNKNOWN',
      'The call is not known: use secureServer() or withSession(), or pass method, name and arguments.',
    );
  }
  if (claims.method !== call.method) {
    refuseContext(
      'METHOD_MISMATCH',
      `The token is for ${quoteValue(claims.method)}, the call is ${quoteValue(call.method)}.`,
    );
  }
  const isTool = call.method === 'tools/call';
  if (isTool && call.name === undefined) {
    refuseContext('CALL_UNKNOWN', 'The tool is not known: pass its name.');
  }
  if (claims.name === undefined ? isTool : claims.name !== call.name) {
    refuseContext(
      'NAME_MISMATCH',
      `The token is for ${quoteValue(claims.name)}, the call is for ${quoteValue(call.name)}.`,
    );
  }
  if (claims.argumentsRaw) return;
  if (claims.argumentsDigest === undefined ? isTool : claims.argumentsDigest !== digestArguments(call.arguments)) {
    refuseContext(
      'ARGUMENTS_MISMATCH',
      'The token is for other arguments. Where the schema of the tool fills in defaults or drops members, use secureServer(), which sees the original arguments.',
    );
  }
}
