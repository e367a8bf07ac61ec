import { randomBytes } from 'node:crypto';
import { z } from 'zod';
import { createConcurrencyLimit } from '../lib/async/mutex.ts';
import { networkOf } from '../lib/net/host-and-port.ts';
import { postForAnswer } from '../lib/net/post-json.ts';
import { userNamePattern, workspaceSlug } from '../lib/text/name-patterns.ts';
import { maxPermissions, permissionPattern } from '../rules/session-base.ts';
import { normalizeTrust, trustSpellings } from '../rules/trust-level.ts';
import { type AccessCeiling, anonymousUser, localUser } from './principal.ts';

/** The secret that the gateway shares with the callback. */
export interface KeyCallbackSecret {
  /** Signs a request as in Standard Webhooks. */
  sign(id: string, seconds: number, body: string): string;
  /** Returns a hash of a key that nobody can compute without the secret. */
  fingerprint(key: string): string;
}

type KeyAnswer =
  | {
      readonly isAccepted: true;
      readonly userId: string;
      readonly ceiling: AccessCeiling;
      /** The time from which the key is no longer accepted. */
      readonly expiresAt: number;
    }
  | { readonly isAccepted: false; readonly status: number };

/** The callback cannot be reached, or its answer is not valid. The message repeats no text of the answer. */
export class KeyCallbackError extends Error {
  override readonly name = 'KeyCallbackError';

  /** True if the callback was not asked. */
  readonly isLimited: boolean;

  constructor(message: string, isLimited = false) {
    super(message);
    this.isLimited = isLimited;
  }
}

const refusals = new Set([401, 403, 404]);
const maxAnswerBytes = 64 * 1024;

/** Users whom a callback must not name, beside users of identity providers. */
const reservedUsers = new Set([localUser, anonymousUser]);

const answerSchema = z.strictObject({
  user: z
    .string()
    .regex(userNamePattern)
    .refine((name) => !name.includes('|') && !reservedUsers.has(name.toLowerCase())),
  agent: z.string().regex(userNamePattern).optional(),
  trust: z.enum(trustSpellings).default('sandboxed'),
  workspaces: z.array(z.string().regex(workspaceSlug)).min(1).max(1000).optional(),
  permissions: z.array(z.string().regex(permissionPattern)).max(maxPermissions).default([]),
  expiresAt: z.iso.datetime({ offset: true }).optional(),
});

export interface KeyAskerOptions {
  readonly maxInVain?: InVainLimits;
  /** A monotonic clock in milliseconds. */
  readonly elapsed: () => number;
}

interface KeyQuestion {
  readonly token: string;
  /** False for a key that was accepted before. */
  readonly isNew: boolean;
  readonly address: string | undefined;
}

/** Asks the callback about keys, and protects it from strangers who try keys. */
interface KeyAsker {
  /** Throws a KeyCallbackError without a clear answer. */
  ask(
    callback: { readonly url: string; readonly secret: KeyCallbackSecret },
    question: KeyQuestion,
  ): Promise<KeyAnswer>;
  close(): void;
}

const timeoutMs = 5000;
const maxConcurrent = 16;

export function createKeyAsker({ maxInVain, elapsed }: KeyAskerOptions): KeyAsker {
  const budget = createInVainBudget(maxInVain ?? { perAddress: 60, all: 600 }, elapsed);
  // Keys that were accepted before do not wait behind those of strangers.
  const acquireForNew = createConcurrencyLimit(maxConcurrent);
  const acquireForKnown = createConcurrencyLimit(maxConcurrent);
  const underWay = new Set<AbortController>();

  return {
    async ask({ url, secret }, { token, isNew, address }) {
      const aborter = new AbortController();
      underWay.add(aborter);
      // The time to wait for a free slot counts.
      const late = setTimeout(() => aborter.abort(), timeoutMs).unref();
      const release = await (isNew ? acquireForNew() : acquireForKnown());
      try {
        const refund = isNew ? budget.spend(address) : undefined;
        if (isNew && refund === undefined) throw new KeyCallbackError('too many unknown keys', true);
        if (aborter.signal.aborted) throw new KeyCallbackError('no answer in time');
        const answer = await askKeyCallback(url, secret, token, aborter.signal);
        if (answer.isAccepted) refund?.();
        return answer;
      } finally {
        release();
        clearTimeout(late);
        underWay.delete(aborter);
      }
    },
    close() {
      for (const aborter of underWay) aborter.abort();
    },
  };
}

/** Asks the callback whether a key is valid. Redirects are not followed, because the operator named this one address. */
async function askKeyCallback(
  url: string,
  secret: KeyCallbackSecret,
  key: string,
  signal: AbortSignal,
): Promise<KeyAnswer> {
  const body = JSON.stringify({ key });
  const limits = { signal, maxBytes: maxAnswerBytes };
  const { status, text } = await postForAnswer(new URL(url), createHeaders(secret, body), body, limits).catch(
    ({ message }: Error) => {
      throw new KeyCallbackError(signal.aborted ? 'no answer in time' : message);
    },
  );
  if (status === 200) return readAnswer(text);
  if (refusals.has(status)) return { isAccepted: false, status };
  throw new KeyCallbackError(`status ${status}`);
}

function createHeaders(secret: KeyCallbackSecret, body: string): Record<string, string> {
  const id = `req_${randomBytes(12).toString('hex')}`;
  const seconds = Math.floor(Date.now() / 1000);
  return {
    accept: 'application/json',
    'user-agent': 'ambit',
    'webhook-id': id,
    'webhook-timestamp': String(seconds),
    'webhook-signature': secret.sign(id, seconds, body),
  };
}

/** Reads an answer. Unknown members are refused, because one of them may be a limit that is misspelled. */
function readAnswer(text: string): KeyAnswer {
  const { data, error } = answerSchema.safeParse(parseJson(text));
  if (data === undefined) throw new KeyCallbackError(describeIssue(error.issues[0]));
  const { user, agent, trust, workspaces, permissions, expiresAt } = data;
  const ceiling: AccessCeiling = Object.freeze({
    trustLevel: normalizeTrust(trust) ?? 'sandboxed',
    workspaces: workspaces === undefined ? null : [...new Set(workspaces)],
    scopes: [...new Set(permissions)].sort(),
    ...(agent === undefined ? {} : { agentId: agent }),
  });
  const until = expiresAt === undefined ? Infinity : Date.parse(expiresAt);
  return { isAccepted: true, userId: user, ceiling, expiresAt: until };
}

/** Names only members that Ambit knows: the others are text of the callback. */
function describeIssue(issue: z.core.$ZodIssue | undefined): string {
  const member = issue?.path[0];
  if (member !== undefined) return `"${String(member)}" in the answer is missing or not valid`;
  return issue?.code === 'unrecognized_keys'
    ? 'the answer has a member that Ambit does not know'
    : 'the answer is no JSON object';
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Limits how many keys that nobody knows are asked for in vain. */
interface InVainBudget {
  /** Counts a question. Returns the function that takes it back, or undefined when there were too many. */
  spend(address: string | undefined): (() => void) | undefined;
}

/** The most questions in vain in a minute. */
interface InVainLimits {
  /** From one network address. */
  readonly perAddress: number;
  readonly all: number;
}

const minuteMs = 60_000;
const everyone = 'all';

/** Creates the budget for strangers. The questions of a minute may come at once. */
function createInVainBudget({ perAddress, all }: InVainLimits, elapsed: () => number): InVainBudget {
  /** The time at which the last question would have come at an even rate. */
  const paidUntil = new Map<string, number>();

  return {
    spend(address) {
      const at = elapsed();
      for (const [whose, until] of paidUntil) if (until <= at) paidUntil.delete(whose);
      const shares = [{ whose: everyone, each: minuteMs / all }];
      if (address !== undefined) shares.push({ whose: networkOf(address), each: minuteMs / perAddress });
      const untilOf = (whose: string) => Math.max(at, paidUntil.get(whose) ?? 0);
      if (shares.some(({ whose, each }) => untilOf(whose) + each - at > minuteMs)) return undefined;
      for (const { whose, each } of shares) paidUntil.set(whose, untilOf(whose) + each);
      return () => {
        for (const { whose, each } of shares) {
          const until = paidUntil.get(whose);
          if (until !== undefined) paidUntil.set(whose, until - each);
        }
      };
    },
  };
}
