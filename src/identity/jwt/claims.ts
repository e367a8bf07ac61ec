import { createHash } from 'node:crypto';
import type { JWTPayload } from 'jose';
import type { TrustLevel } from '../../rules/trust-level.ts';
import type { AccessCeiling, TokenPermissions } from '../principal.ts';

/** An identity provider whose tokens are accepted, as configured. */
export interface JwtIssuer {
  readonly issuer: string;
  readonly audience: readonly string[];
  readonly jwksUri: string;
  readonly userPrefix?: string | undefined;
  /** `jwt` also accepts tokens that are not marked as access tokens. */
  readonly tokenType: 'at+jwt' | 'jwt';
  readonly algorithms: readonly string[];
  readonly clockToleranceSeconds: number;
  /** Scopes that every token needs. */
  readonly scopes: readonly string[];
  /** The scope that grants each permission. */
  readonly permissions: Readonly<Record<string, string>>;
  readonly roles?:
    | {
        readonly claim: string;
        readonly map: Readonly<Record<string, RoleBounds>>;
        readonly admin: readonly string[];
      }
    | undefined;
}

interface RoleBounds {
  readonly trust: TrustLevel;
  readonly workspaces?: readonly string[] | undefined;
}

const plainSubject = /^[A-Za-z0-9._@|:-]+$/;
const maxUserLength = 128;
const hashPrefix = 'sha256:';

/** Creates the name of a user. Unusual subjects become hashes, and so do those that look like one. */
export function createUserName({ issuer, userPrefix }: JwtIssuer, subject: string): string {
  // It must be unique among issuers, or their users would be mixed up.
  const prefix = userPrefix ?? new URL(issuer).host;
  const name = `${prefix}|${subject}`;
  if (plainSubject.test(subject) && name.length <= maxUserLength && !subject.startsWith(hashPrefix)) return name;
  return `${prefix}|${hashPrefix}${createHash('sha256').update(subject).digest('hex')}`;
}

/** Reads `scope` of RFC 9068, words in one text, and `scp` of some providers, a list or such a text. */
export function readScopes(payload: JWTPayload): string[] {
  return [payload['scope'], payload['scp']].flatMap((claim) =>
    typeof claim === 'string' ? claim.split(' ').filter((word) => word !== '') : listStrings(claim),
  );
}

/** Reads the claim of that name, else the nested claim that its dotted parts name. */
export function readRoles(payload: JWTPayload, claim: string): string[] {
  const found = readMember(payload, claim) ?? claim.split('.').reduce<unknown>(readMember, payload);
  return typeof found === 'string' ? [found] : listStrings(found);
}

/** Finds what the roles of a token allow; undefined when roles are required and the token has none of them. */
export function findCeiling(issuer: JwtIssuer, roles: readonly string[]): AccessCeiling | undefined {
  if (issuer.roles === undefined) return { trustLevel: 'sandboxed', workspaces: null, scopes: null };
  const { map } = issuer.roles;
  const granted = roles.flatMap((role) => (Object.hasOwn(map, role) ? [map[role] as RoleBounds] : []));
  if (granted.length === 0) return undefined;
  const workspaces = mergeWorkspaces(granted);
  const direct = granted.filter(({ trust }) => trust === 'direct');
  const trustLevel = direct.length > 0 ? 'direct' : 'sandboxed';
  // Roles add up, but the trust of one does not apply to the workspaces of another.
  const directWorkspaces = direct.length > 0 ? mergeWorkspaces(direct) : null;
  const directIn =
    directWorkspaces === null || directWorkspaces.length === workspaces?.length ? {} : { directIn: directWorkspaces };
  // Permissions are not limited here, because each request brings those that scopes decide about.
  return { trustLevel, ...directIn, workspaces, scopes: null };
}

/** Merges the workspaces of roles; null when one of them is not limited. */
function mergeWorkspaces(roles: readonly RoleBounds[]): string[] | null {
  if (roles.some((role) => role.workspaces === undefined)) return null;
  return [...new Set(roles.flatMap((role) => role.workspaces ?? []))];
}

export function findPermissions({ permissions }: JwtIssuer, scopes: readonly string[]): TokenPermissions {
  const brought = Object.keys(permissions).filter((name) => scopes.includes(permissions[name] as string));
  return { brought, governed: permissions };
}

function readMember(value: unknown, key: string): unknown {
  if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
  return (value as Record<string, unknown>)[key];
}

function listStrings(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : [];
}
