import type { TrustLevel } from '../../rules/trust-level.ts';

/** An identity provider whose tokens are taken, as the configuration describes it. */
export interface JwtIssuer {
  readonly issuer: string;
  readonly audience: readonly string[];
  readonly jwksUri: string;
  readonly userPrefix?: string | undefined;
  /** `jwt` takes tokens that do not say that they are access tokens. */
  readonly tokenType: 'at+jwt' | 'jwt';
  readonly algorithms: readonly string[];
  readonly clockToleranceSeconds: number;
  /** Without all of these a token is of no use here. */
  readonly scopes: readonly string[];
  /** Each permission with the scope that brings it. */
  readonly permissions: Readonly<Record<string, string>>;
  readonly roles?:
    | {
        readonly claim: string;
        readonly map: Readonly<Record<string, RoleBounds>>;
        readonly admin: readonly string[];
      }
    | undefined;
}

export interface RoleBounds {
  readonly trust: TrustLevel;
  readonly workspaces?: readonly string[] | undefined;
}
