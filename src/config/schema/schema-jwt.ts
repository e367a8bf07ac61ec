import { z } from 'zod';
import { maxPermissions, permissionPattern } from '../../rules/session-base.ts';
import { mapOf, secureUrl, textLine, trustLevel, workspaceSlug } from './schema-parts.ts';

const scopeSchema = z.string().regex(/^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/, {
  error: 'expected a scope: visible characters without blanks, quotes and backslashes',
});

/** Algorithms whose public key cannot sign; with the others a published key would be a secret. */
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
  'Ed25519',
] as const;

const roleName = { pattern: /^[^\u0000-\u001f\u007f-\u009f]{1,256}$/, rule: 'a role is one line of text' };

const rolesSchema = z.strictObject({
  claim: textLine(256)
    .default('roles')
    .describe('Claim that lists the roles of the user. Dots select a nested claim, for example "realm_access.roles".'),
  map: mapOf(
    roleName,
    z.strictObject({
      trust: trustLevel.prefault('sandboxed').describe('Highest trust level for sessions of this role.'),
      workspaces: z
        .array(z.string().regex(workspaceSlug, { error: 'expected the name of a workspace' }))
        .max(1000)
        .optional()
        .describe('Workspaces that this role may use. Default: all.'),
    }),
  )
    .default({})
    .describe('Limits per role. A user with none of these roles is refused.'),
  admin: z
    .array(textLine(256))
    .max(100)
    .default([])
    .describe('Roles that may do everything in the control API and the console.'),
  viewer: z
    .array(textLine(256))
    .max(100)
    .default([])
    .describe('Roles that may read in the control API and the console.'),
});

const issuerSchema = z.strictObject({
  issuer: secureUrl.describe('Value of the "iss" claim.'),
  audience: z.array(textLine(512)).min(1).max(100).describe('Accepted values of the "aud" claim, compared exactly.'),
  jwksUri: secureUrl.describe('URL of the public keys of the issuer.'),
  userPrefix: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9.:_-]{0,55}$/, {
      error: 'expected up to 56 letters, digits and ".:_-", starting with a letter or digit',
    })
    .optional()
    .describe(
      'First part of the user name "PREFIX|SUB". Must be different for each issuer. Default: the host of the issuer.',
    ),
  tokenType: z
    .enum(['at+jwt', 'jwt'])
    .default('at+jwt')
    .describe('Required "typ" header. "jwt" also accepts tokens with type "JWT" or without a type.'),
  algorithms: z
    .array(z.enum(algorithms))
    .min(1)
    .default([...algorithms])
    .describe('Accepted signature algorithms.'),
  clockToleranceSeconds: z
    .number()
    .int()
    .min(0)
    .max(120)
    .default(5)
    .describe('Accepted difference between the clocks of Ambit and the issuer.'),
  scopes: z.array(scopeSchema).max(100).default([]).describe('Scopes that every token must have.'),
  permissions: mapOf({ pattern: permissionPattern, rule: 'expected a permission, such as "notes:write"' }, scopeSchema)
    .refine((map) => Object.keys(map).length <= maxPermissions, { error: 'too many' })
    .default({})
    .describe('Map from permission to the scope that grants it.'),
  roles: rolesSchema
    .optional()
    .describe('Limits per role of a user. Without this key, users may open sandboxed sessions in all workspaces.'),
});

export const jwtSchema = z
  .array(issuerSchema)
  .max(100)
  .superRefine((issuers, context) => {
    const prefixes = new Set<string>();
    for (const [index, { issuer, userPrefix }] of issuers.entries()) {
      const prefix = (userPrefix ?? findHost(issuer)).toLowerCase();
      const path = [index, userPrefix === undefined ? 'issuer' : 'userPrefix'];
      if (!/^[a-z0-9][a-z0-9.:_-]{0,55}$/.test(prefix)) {
        context.addIssue({
          code: 'custom',
          path,
          message: 'this host cannot be used as a prefix of user names; set userPrefix',
        });
      }
      if (prefixes.has(prefix)) {
        context.addIssue({
          code: 'custom',
          path,
          message: 'another issuer has the same prefix of user names; set userPrefix to tell them apart',
        });
      }
      prefixes.add(prefix);
    }
  });

function findHost(issuer: string): string {
  return URL.canParse(issuer) ? new URL(issuer).host : '';
}
