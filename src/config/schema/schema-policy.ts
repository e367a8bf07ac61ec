import { z } from 'zod';
import { teamNamePattern, userNamePattern } from '../../lib/text/name-patterns.ts';
import { isMap, oneOrMore, prose, textLine } from './schema-parts.ts';

const ruleSchema = z
  .strictObject({
    id: z
      .string()
      .regex(/^[a-z0-9][a-z0-9._-]{0,63}$/, { error: 'expected up to 64 of a-z, 0-9, ".", "_" and "-"' })
      .describe('Name of the rule, shown with every decision it makes.'),
    allow: oneOrMore(textLine(200)).optional().describe('Patterns of the allowed tools, in the form "server__tool".'),
    deny: oneOrMore(textLine(200)).optional().describe('Patterns of the denied tools, in the form "server__tool".'),
    when: prose
      .optional()
      .describe('CEL condition under which the rule applies. An error while evaluating it denies the call.'),
  })
  .superRefine(
    ({ allow, deny }, context) => {
      if ((allow === undefined) === (deny === undefined)) {
        context.addIssue({ code: 'custom', message: 'needs either allow or deny' });
      }
    },
    { when: ({ value }) => isMap(value) },
  );

export const rulesSchema = z
  .array(ruleSchema)
  .max(10_000)
  .superRefine(
    (rules, context) => {
      const seen = new Set<string>();
      for (const [index, rule] of rules.entries()) {
        if (!isMap(rule) || typeof rule.id !== 'string') continue;
        if (seen.has(rule.id)) {
          context.addIssue({ code: 'custom', path: [index, 'id'], message: 'another rule already has this id' });
        }
        seen.add(rule.id);
      }
    },
    { when: ({ value }) => Array.isArray(value) },
  );

const scopeSchema = z
  .string()
  .regex(/^(?:org|(?:team|user|workspace):[^\s\u0000-\u001f\u007f]{1,128})$/, {
    error: 'expected "org", "team:NAME", "user:NAME" or "workspace:NAME"',
  })
  .default('org')
  .describe('Who it applies to: org, team:T, user:U or workspace:W.');

const userNameSchema = z.string().regex(userNamePattern, {
  error: 'expected up to 128 letters, digits and "._@|:-", starting with a letter or digit',
});
const teamNameSchema = z.string().regex(teamNamePattern, {
  error: 'expected up to 64 letters, digits, ".", "_" and "-", starting with a letter or digit',
});

const peopleKeys = {
  organisation: textLine(128).optional().describe('Name of the organisation.'),
  teams: z.array(teamNameSchema).max(1000).default([]).describe('Names of the teams.'),
  users: z
    .array(
      z.strictObject({
        name: userNameSchema
          .refine((name) => name !== 'anonymous', { error: '"anonymous" is reserved for anonymous callers' })
          .describe('Name of the user, as sessions and tools see it.'),
        teams: z
          .array(teamNameSchema)
          .max(100)
          .default([])
          .describe('Teams of the user. Each must be listed in governance.teams.'),
      }),
    )
    .max(10_000)
    .default([])
    .describe('Users declared in this file. Other users are added with "ambit user add".'),
};

/** Checks that teams are declared, because a misspelt one would have no policies. */
function checkTeams(
  { teams, users }: { readonly teams: readonly string[]; readonly users: readonly { name: string; teams: string[] }[] },
  context: z.RefinementCtx,
): void {
  const names = new Set<string>();
  for (const [index, user] of users.entries()) {
    if (names.has(user.name)) {
      context.addIssue({
        code: 'custom',
        path: ['users', index, 'name'],
        message: 'another user already has this name',
      });
    }
    names.add(user.name);
    for (const [at, each] of user.teams.entries()) {
      if (teams.includes(each)) continue;
      context.addIssue({
        code: 'custom',
        path: ['users', index, 'teams', at],
        message: 'this team is not listed in "teams"',
      });
    }
  }
}

const enabledSchema = z.boolean().default(true).describe('A disabled entry is ignored.');
const orderSchema = z
  .int()
  .min(-1_000_000)
  .max(1_000_000)
  .default(0)
  .describe('Position within its scope; lower numbers come first.');

export const governanceSchema = z
  .strictObject({
    ...peopleKeys,
    carrier: z
      .enum(['first-result', 'instructions', 'both'])
      .default('first-result')
      .describe(
        'How policies and objectives reach the model: in the first result, in the server instructions, or both.',
      ),
    policies: z
      .array(
        z.strictObject({
          name: z
            .string()
            .regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/, {
              error: 'expected up to 64 letters, digits, ".", "_" and "-"',
            })
            .describe('Name of the policy, unique within its scope.'),
          scope: scopeSchema,
          mode: z
            .enum(['prepend', 'append'])
            .default('prepend')
            .describe('Placed before ("prepend") or after ("append") the messages of a server prompt.'),
          text: prose.describe('Text shown to the model.'),
          locked: z
            .boolean()
            .default(false)
            .describe('A narrower scope cannot replace this policy with one of the same name.'),
          enabled: enabledSchema,
          order: orderSchema,
        }),
      )
      .max(1000)
      .superRefine(
        (policies, context) => {
          const seen = new Set<string>();
          for (const [index, policy] of policies.entries()) {
            if (!isMap(policy)) continue;
            const key = `${policy.scope}/${policy.name}`;
            if (seen.has(key)) {
              context.addIssue({
                code: 'custom',
                path: [index, 'name'],
                message: 'its scope already has a policy with this name',
              });
            }
            seen.add(key);
          }
        },
        { when: ({ value }) => Array.isArray(value) },
      )
      .default([])
      .describe('Instructions that the model must follow.'),
    objectives: z
      .array(
        z.strictObject({
          scope: scopeSchema,
          text: prose.describe('Text shown to the model.'),
          enabled: enabledSchema,
          order: orderSchema,
        }),
      )
      .max(1000)
      .default([])
      .describe('Goals that the model should work towards.'),
  })
  .superRefine(checkTeams);
