import { join } from 'node:path';
import { type ClientTraits, computeClientId, maxInfoLength } from '../../context/for-models/delivery-marks.ts';
import { createGovernance, type Governance } from '../../context/for-models/governance.ts';
import { markForgedBlocks } from '../../context/for-models/mark-forged-blocks.ts';
import type { Objective, Policy } from '../../context/for-models/policy.ts';
import { checkObjective, checkPolicy } from '../../context/for-models/policy-store.ts';
import { createTemporaryKeys, openSigningKeys, type SigningKeys } from '../../context/for-tools/signing-keys.ts';
import { AmbitError } from '../../errors.ts';
import { withTimeout } from '../../lib/async/timeout.ts';
import type { Log } from '../../observability/log/log.ts';
import type { DeliveryListener, FinalReply } from '../../protocol/channel.ts';
import { composeError } from '../../protocol/compose-message.ts';
import type { Session } from '../../sessions/session.ts';
import type { SessionStore } from '../../stores/store.ts';
import { isObject } from '../sdk/call.ts';
import { hookMs } from './safe-hooks.ts';

/** A policy service that has failed is not asked again for this long, so that calls need not wait for it. */
const awayMs = 2000;
const maxResolved = 200;

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
  let awayUntil = Number.NEGATIVE_INFINITY;
  const keys: Pick<SigningKeys, 'current' | 'jwks' | 'close'> =
    storeDir === undefined ? createTemporaryKeys() : await openSigningKeys(join(storeDir, 'keys'));
  const governance = createGovernance({
    store,
    settings: () => settings,
    people: {
      teamsOf: async (userId) => (await withTimeout((async () => teamsOf?.(userId))(), hookMs)) ?? [],
      collections: [],
    },
    // An author who sets this option wants each session to get a block, if only the note that there is nothing.
    isAlwaysActive: true,
    ...(resolve && {
      async resolveTexts({ userId, workspaceId }) {
        if (performance.now() < awayUntil) throw new Error('the last call of governance.resolve has failed just now');
        const answer = await withTimeout((async () => resolve(userId, workspaceId))(), hookMs).catch((error) => {
          awayUntil = performance.now() + awayMs;
          throw error;
        });
        if (answer === undefined || answer === null) throw new Error('governance.resolve returned nothing');
        return readResolved(answer, userId, (error) => log.warn('policy is not valid', { error }));
      },
    }),
    keys,
    issuer: given.issuer ?? 'ambit-mcp/server',
    log,
    ...(now && { now }),
  });
  return {
    ...governance,
    async contextOf(person) {
      try {
        return await governance.contextOf(person);
      } catch (error) {
        log.warn('policies cannot be resolved', { user: person.userId, error: String(error) });
        throw new AmbitError('STORE_UNAVAILABLE', { what: 'The policies cannot be read at the moment.', cause: error });
      }
    },
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

/** Reads the answer of `resolve`. An entry that is not valid is left out and reported, so that the others still count. */
function readResolved(answer: ResolvedPolicies, userId: string, report: (error: string) => void) {
  const local = `user:${userId}`;
  const policies = (answer.policies ?? []).map((each, order): Policy => {
    const { name, text, mode = 'prepend', inherited = false } = each;
    return { name, text, scope: inherited ? 'org' : local, mode, locked: false, enabled: true, order };
  });
  const objectives = (answer.objectives ?? []).map((text, order): Objective => {
    return { id: `resolved-${order}`, text, scope: local, enabled: true, order };
  });
  if (policies.length + objectives.length > maxResolved) throw new Error(`more than ${maxResolved} texts`);
  const isValid =
    <T>(check: (text: T) => void) =>
    (text: T) => {
      try {
        check(text);
        return true;
      } catch (error) {
        report(String(error));
        return false;
      }
    };
  return { policies: policies.filter(isValid(checkPolicy)), objectives: objectives.filter(isValid(checkObjective)) };
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
  /** The client of a request in the modern era. */
  readonly client: ClientTraits;
  /** The result is of a session tool, whose texts are not marked. */
  readonly isOwnTool: boolean;
  /** Whether the result must stay as it is. */
  readonly isExact: boolean;
}

/** A server with policies always offers the tool `session_context`. */
const hasContextTool = () => true;

/** Keys of a result that only the session layer writes. */
const reservedKeys = ['ambit/context-block', 'ambit/session'];

/** Adds what is due to the result of a tool call or a prompt, and marks forged blocks in every result, as the gateway does. */
export async function addPolicies(governance: Governance, call: GovernedCall, given: unknown): Promise<GovernedResult> {
  const { method, session, transportId, client } = call;
  const result = call.isOwnTool ? given : dropReservedKeys(given);
  const text = JSON.stringify(result);
  if (text === undefined) return { result, delivery: undefined };
  const bytes = Buffer.from(`{"jsonrpc":"2.0","id":0,"result":${text}}`);
  const reply: FinalReply = { kind: 'message', bytes: call.isExact ? bytes : markResult(bytes) };
  const governed = await governReply();
  if (governed.kind !== 'message' || governed.bytes === bytes) return { result, delivery: undefined };
  return { result: readResult(governed.bytes), delivery: governed.delivery };

  function governReply(): FinalReply | Promise<FinalReply> {
    const { id: sessionId, userId, workspaceId } = session;
    if (method === 'prompts/get') return governance.surroundPrompt(session, reply);
    if (method !== 'tools/call') return reply;
    const clientId = () => computeClientId(session, client);
    return governance.prependIfDue({ sessionId, userId, workspaceId, transportId, clientId, hasContextTool }, reply);
  }
}

function dropReservedKeys(result: unknown): unknown {
  if (!isObject(result) || !isObject(result['_meta'])) return result;
  const meta = Object.entries(result['_meta']).filter(([key]) => !reservedKeys.includes(key));
  return { ...result, _meta: Object.fromEntries(meta) };
}

/** Marks forged blocks. A result that cannot be checked is withheld: it could hold anything. */
function markResult(bytes: Buffer): Buffer {
  try {
    return markForgedBlocks(bytes);
  } catch (cause) {
    throw withheldError(cause);
  }
}

/** Marks forged blocks in the message and data of an error that a handler threw. */
export function markError(error: unknown): unknown {
  if (typeof error !== 'object' || error === null) return error;
  const { code, message, data } = error as {
    readonly code?: unknown;
    readonly message?: unknown;
    readonly data?: unknown;
  };
  const composed = composeError('0', 0, String(message ?? ''), data);
  const bytes = markResult(composed);
  if (bytes === composed) return error;
  const marked = (
    JSON.parse(bytes.toString()) as { readonly error: { readonly message: string; readonly data?: unknown } }
  ).error;
  return Object.assign(new Error(marked.message), { code, data: marked.data });
}

function withheldError(cause?: unknown): AmbitError {
  return new AmbitError('UPSTREAM_TOO_LARGE', {
    what: 'The result of the call could not be checked and is withheld. The call may have taken effect.',
    hint: 'Check whether it did before you repeat it.',
    cause,
  });
}

/** Adds to the answer to `initialize` or `server/discover` that the block will come. */
export async function addInstructions(governance: Governance, message: object): Promise<object> {
  const nobody = { userId: '', workspaceId: undefined, hasContextTool };
  const reply = await governance.addInstructions(nobody, {
    kind: 'message',
    bytes: Buffer.from(JSON.stringify(message)),
  });
  return reply.kind === 'message' ? (JSON.parse(reply.bytes.toString()) as object) : message;
}

const clientInfoKey = 'io.modelcontextprotocol/clientInfo';

/** Reads name and version in `clientInfo`. Version 2 of the SDK moves it from `_meta` to the envelope of the request. */
export function readClientInfo(meta: unknown, extra: Readonly<Record<string, unknown>> = {}): string {
  const envelope = isObject(extra['mcpReq']) ? extra['mcpReq']['envelope'] : undefined;
  const info = [envelope, meta].map((each) => (isObject(each) ? each[clientInfoKey] : undefined)).find(isObject);
  return JSON.stringify([info?.['name'], info?.['version']].map((each) => String(each).slice(0, maxInfoLength / 4)));
}

/** Reads the result. There is none if a result imitated the block so often that it was replaced by an error. */
function readResult(bytes: Buffer): unknown {
  const { result } = JSON.parse(bytes.toString()) as { readonly result?: unknown };
  if (result === undefined) throw withheldError();
  return result;
}
