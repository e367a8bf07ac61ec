import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import { normalizeTrust, type TrustLevel } from '../../rules/trust-level.ts';
import { jsonValue, texts } from '../../sessions/session-schema.ts';

/** Any spelling of a trust level, read as the one that counts. */
const givenTrust = z.string().transform(readTrust).describe('"direct" or "sandboxed".');

function readTrust(text: string): TrustLevel {
  const trustLevel = normalizeTrust(text);
  if (trustLevel !== undefined) return trustLevel;
  throw new AmbitError('REQUEST_INVALID', { what: 'The trust level must be "direct" or "sandboxed".' });
}

export const narrowing = z.strictObject({
  trustLevel: givenTrust.exactOptional(),
  ttlSeconds: z.number().exactOptional().describe('It ends when it is idle for so long.'),
  servers: texts.exactOptional().describe('The only servers it may use; an empty list means none.'),
  permissions: texts.exactOptional().describe('What it may do, by name.'),
});

export const draft = narrowing.extend({
  name: z.string().exactOptional().describe('Unique per user among live sessions.'),
  userId: z.string().exactOptional(),
  agentId: z.string().exactOptional(),
  workspaceId: z.string().exactOptional(),
  parentId: z
    .string()
    .exactOptional()
    .describe('An id, a unique name or a prefix. The session is bounded by that one, and ends with it.'),
  metadata: z.record(z.string(), jsonValue).exactOptional().describe('Notes of the orchestrator; tools are not told.'),
});

export const sessionsQuery = z.object({
  user: z.string().exactOptional().describe('Only those of this user.'),
  workspace: z.string().exactOptional().describe('Only those in this workspace.'),
  parent: z.string().exactOptional().describe('Only those that this session opened.'),
  after: z.string().exactOptional().describe('"next" of the page before.'),
  // The store refuses other numbers.
  limit: z
    .string()
    .transform(Number)
    .default(1000)
    .meta({ type: 'integer', minimum: 1, maximum: 1000, description: 'At most this many; 1000 unless said.' }),
});

const mostCalls = 200;
const callsLimit = { error: `a whole number from 1 to ${mostCalls}` };
export const callsQuery = z.object({
  before: z
    .string()
    .regex(/^\d{1,15}$/, '"next" of the page before, as it was')
    .optional()
    .describe('"next" of the page before.'),
  limit: z.coerce
    .number(callsLimit)
    .int(callsLimit)
    .min(1, callsLimit)
    .max(mostCalls, callsLimit)
    .default(50)
    .describe('At most this many.'),
});

export const via = z.strictObject({ via: z.literal('gateway') });
export const callToExplain = z.strictObject({
  tool: z.string().describe('As server__tool; one of Ambit\u2019s own by its bare name.'),
  // It is judged as it was written, not as somebody has read it.
  args: z.string().optional().describe('The arguments, as JSON text.'),
});

export const folderQuery = z.object({
  workspace: z.string().optional().describe('Which folder, where it has several.'),
});

export const mergeRequest = z.strictObject({
  workspace: z.string().optional().describe('Which folder, where it has several.'),
  dryRun: z.boolean().optional().describe('Only say what would be done.'),
  prefer: z.enum(['session', 'workspace']).optional().describe('Whose version counts where both changed the same.'),
});

export const newUser = z.strictObject({
  name: z.string(),
  teams: texts.optional().describe('The user joins these.'),
});

export const teamsOfUser = z.strictObject({ teams: texts });
export const newKey = z.strictObject({
  userId: z.string(),
  trustLevel: givenTrust.optional(),
  workspaces: texts.optional().describe('The only ones it may use; all unless said.'),
  scopes: texts
    .optional()
    .describe('The permissions that its sessions hold; nothing that needs a permission unless said.'),
  lifeSeconds: z.number().optional().describe('It expires after so long; never unless said.'),
});

export const rotation = z.strictObject({
  overlapSeconds: z.number().optional().describe('The secret before works for so long; 0 unless said.'),
});

export const keysQuery = z.object({ user: z.string().optional().describe('Only those of this user.') });

export const credentialName = z.strictObject({
  userId: z.string(),
  server: z.string(),
  env: z.string().optional().describe('The variable in which the server finds it; either this or "header".'),
  header: z.string().optional().describe('The header in which the server finds it.'),
});

export const newCredential = credentialName.extend({ value: z.string().describe('Never shown again.') });
export const loginName = z.strictObject({ userId: z.string(), server: z.string() });
export const newLogin = loginName.extend({
  port: z
    .number()
    .int()
    .min(1)
    .max(65_535)
    .optional()
    .describe(
      'Where a command waits for the browser on its own machine; without one the browser comes back to the gateway.',
    ),
});

export const loginCallback = loginName.extend({
  callback: z.string().max(16_384).describe('The address that the browser was sent back to.'),
});

export const scope = z.string().describe('org, team:T, user:U or workspace:W.');
export const mode = z.enum(['prepend', 'append']).describe('Before or after the prompts of a server.');
const place = {
  enabled: z.boolean().exactOptional().describe('One that is not is kept and counts for nothing; true unless said.'),
  order: z.int().exactOptional().describe('The lower ones come first in their scope; 0 unless said.'),
};

export const newPolicy = z.strictObject({
  scope,
  ...place,
  name: z.string(),
  mode,
  text: z.string(),
  locked: z.boolean().exactOptional().describe('No nearer scope may have another one of this name; false unless said.'),
});

export const policyName = z.strictObject({ scope, name: z.string() });
export const newObjective = z.strictObject({ scope, ...place, text: z.string() });
export const objectiveId = z.strictObject({ id: z.string() });
const saysNoUser = {
  error: (): never => {
    throw new AmbitError('REQUEST_INVALID', { what: 'Say for which user.', hint: 'Add ?user=NAME.' });
  },
};

export const effectiveQuery = z.object({
  user: z.string(saysNoUser).min(1, saysNoUser).describe('For whom.'),
  workspace: z.string().optional().describe('In which workspace.'),
});
