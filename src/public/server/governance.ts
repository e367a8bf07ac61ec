import { join } from 'node:path';
import { createGovernance, type Governance } from '../../context/for-models/governance.ts';
import { markForgedBlocks } from '../../context/for-models/mark-forged-blocks.ts';
import type { Objective, Policy } from '../../context/for-models/policy.ts';
import { checkObjective, checkPolicy } from '../../context/for-models/policy-store.ts';
import { createTemporaryKeys, openSigningKeys, type SigningKeys } from '../../context/for-tools/signing-keys.ts';
import type { Log } from '../../observability/log/log.ts';
import type { DeliveryListener, FinalReply } from '../../protocol/channel.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';

interface GivenPolicy {
  readonly name: string;
  readonly text: string;
  /** Default `prepend`. */
  readonly mode?: 'prepend' | 'append' | undefined;
}

/** The policies and objectives of one user in one workspace, as another system resolved them. */
export interface ResolvedPolicies {
  /** `inherited` says that the policy comes from above the user. Default false. */
  readonly policies?: readonly (GivenPolicy & { readonly inherited?: boolean | undefined })[] | undefined;
  readonly objectives?: readonly string[] | undefined;
}

/**
 * Policies and objectives: lists, a function, and those that `ambit policy` and `ambit objective` have written into the
 * same store. All of them are used together.
 */
export interface GivenGovernance {
  readonly policies?: readonly (GivenPolicy & {
    /** `org` (default), `team:T`, `user:U` or `workspace:W`. */
    readonly scope?: string | undefined;
    readonly locked?: boolean | undefined;
  })[];
  readonly objectives?: readonly { readonly text: string; readonly scope?: string | undefined }[];
  readonly teamsOf?: ((userId: string) => readonly string[] | Promise<readonly string[]>) | undefined;
  /** Called for each new session, and again after `policiesChanged()`, on prompts and by `session_context`. */
  readonly resolve?:
    | ((userId: string, workspaceId: string | undefined) => ResolvedPolicies | Promise<ResolvedPolicies>)
    | undefined;
  /** The issuer in the signature of a block. Default `ambit-mcp/server`. */
  readonly issuer?: string | undefined;
}

/** The policies and objectives of a server that runs without Ambit. */
export interface ServerGovernance extends Governance {
  /** The public keys that verify the signature of a block, as a JWK Set. */
  jwks(): string;
}

interface GovernanceParts {
  readonly store: SessionStore;
  readonly storeDir: string | undefined;
  readonly log: Log;
  readonly now: (() => number) | undefined;
}

/** Opens the policies and objectives. The signing keys are kept in `storeDir`, else in memory. */
export async function openServerGovernance(given: GivenGovernance, parts: GovernanceParts): Promise<ServerGovernance> {
  const { store, storeDir, log, now } = parts;
  const { teamsOf, resolve } = given;
  const settings = readTexts(given);
  const keys: Pick<SigningKeys, 'current' | 'jwks' | 'close'> =
    storeDir === undefined ? createTemporaryKeys() : await openSigningKeys(join(storeDir, 'keys'));
  const governance = createGovernance({
    store,
    settings: () => settings,
    people: {
      teamsOf: async (userId) => (await teamsOf?.(userId)) ?? [],
      // An author who sets this option wants each session to get a block, if only the note that there is nothing.
      any: async () => true,
      collections: [],
    },
    ...(resolve && {
      resolveTexts: async ({ userId, workspaceId }) => readResolved(await resolve(userId, workspaceId), userId),
    }),
    keys,
    issuer: given.issuer ?? 'ambit-mcp/server',
    log,
    ...(now && { now }),
  });
  return {
    ...governance,
    jwks: keys.jwks,
    async close() {
      await governance.close();
      keys.close();
    },
  };
}

/** Reads the lists of the options. Throws if one of them is invalid. */
export function readTexts({ policies = [], objectives = [] }: GivenGovernance) {
  const texts = {
    carrier: 'first-result' as const,
    policies: policies.map(({ name, text, scope = 'org', mode = 'prepend', locked = false }): Policy => {
      return { name, text, scope, mode, locked, enabled: true, order: 0 };
    }),
    objectives: objectives.map(({ text, scope = 'org' }) => ({ text, scope, enabled: true, order: 0 })),
  };
  texts.policies.forEach(checkPolicy);
  texts.objectives.forEach(checkObjective);
  return texts;
}

function readResolved({ policies = [], objectives = [] }: ResolvedPolicies, userId: string) {
  const local = `user:${userId}`;
  const texts = {
    policies: policies.map(({ name, text, mode = 'prepend', inherited = false }, order): Policy => {
      return { name, text, scope: inherited ? 'org' : local, mode, locked: false, enabled: true, order };
    }),
    objectives: objectives.map((text, order): Objective => {
      return { id: `resolved-${order}`, text, scope: local, enabled: true, order };
    }),
  };
  texts.policies.forEach(checkPolicy);
  texts.objectives.forEach(checkObjective);
  return texts;
}

/** A result with its policies, and the listener to tell whether it was sent. */
export interface GovernedResult {
  readonly result: unknown;
  readonly delivery: DeliveryListener | undefined;
}

interface GovernedCall {
  readonly method: string;
  readonly session: Session;
  readonly transportId: string | undefined;
  /** The result is of a session tool, whose texts are not marked. */
  readonly isOwnTool: boolean;
}

/** Adds what is due to the result of a tool call or a prompt, as the gateway does. */
export async function addPolicies(
  governance: Governance,
  call: GovernedCall,
  result: unknown,
): Promise<GovernedResult> {
  const { method, session, transportId } = call;
  const text = JSON.stringify(result);
  if (text === undefined) return { result, delivery: undefined };
  const bytes = Buffer.from(`{"jsonrpc":"2.0","id":0,"result":${text}}`);
  const reply: FinalReply = { kind: 'message', bytes: call.isOwnTool ? bytes : markForgedBlocks(bytes) };
  const { id: sessionId, userId, workspaceId } = session;
  const governed =
    method === 'prompts/get'
      ? await governance.surroundPrompt(session, reply)
      : await governance.prependIfDue({ sessionId, userId, workspaceId, transportId }, reply);
  if (governed.kind !== 'message' || governed.bytes === bytes) return { result, delivery: undefined };
  return { result: readResult(governed.bytes), delivery: governed.delivery };
}

/** Adds to the answer to `initialize` or `server/discover` that the block will come. */
export async function addInstructions(governance: Governance, message: object): Promise<object> {
  const nobody = { userId: '', workspaceId: undefined };
  const reply = await governance.addInstructions(nobody, {
    kind: 'message',
    bytes: Buffer.from(JSON.stringify(message)),
  });
  return reply.kind === 'message' ? (JSON.parse(reply.bytes.toString()) as object) : message;
}

function readResult(bytes: Buffer): unknown {
  return (JSON.parse(bytes.toString()) as { readonly result: unknown }).result;
}
