import type { Call } from './call.ts';
import type { Claims } from './claims.ts';
import { Refusal } from './context.ts';

/** One for the process: servers are often built anew for each request. */
const replays = createReplayMemory();

/** A message may be looked at more than once, by a wrapper and by the handler in it; that is no replay. */
const used = new WeakMap<object, Set<string>>();

interface Use {
  readonly now: number;
  readonly until: number;
  readonly memory: ReplayMemory | undefined;
}

/**
 * Which tokens have been used. Give your own where several processes answer for one audience, over a store they share:
 * a token is good once in all of them, not once in each.
 */
export interface ReplayMemory {
  /** Whether the id is new. It has to be kept until that moment (milliseconds since 1970). */
  remember(id: string, until: number, now: number): 'new' | 'seen' | 'full' | Promise<'new' | 'seen' | 'full'>;
}

/**
 * Ids are kept until their tokens have expired. When the memory is full of live ones, further tokens are refused:
 * to forget one would allow it a second time.
 */
export function createReplayMemory(limit = 250_000): ReplayMemory {
  const seen = new Map<string, number>();

  function forgetExpired(now: number): void {
    // Tokens live equally long, so the order of arrival is nearly that of expiry.
    for (const [id, until] of seen) {
      if (until > now) break;
      seen.delete(id);
    }
  }

  return {
    remember(id, until, now) {
      forgetExpired(now);
      const kept = seen.get(id);
      if (kept !== undefined && kept > now) return 'seen';
      if (seen.size >= limit) return 'full';
      seen.delete(id);
      seen.set(id, until);
      return 'new';
    },
  };
}

/** Comes last: a token that was refused for something else has not been used. */
export async function refuseReplay(claims: Claims, call: Call, { now, until, memory = replays }: Use): Promise<void> {
  const id = `${claims.issuer} ${claims.id}`;
  const use = `${typeof call.id} ${call.id} ${id}`;
  if (call.carrier !== undefined && used.get(call.carrier)?.has(use)) return;
  const answer = await ask(memory, id, until, now);
  if (answer === 'seen') {
    throw new Refusal('TOKEN_REPLAYED', 'The token has been used before; each is good for one call.');
  }
  if (answer !== 'new') {
    throw new Refusal(
      'REPLAYS_UNKNOWN',
      'Whether the token has been used before cannot be told now; try again in a minute.',
    );
  }
  if (call.carrier !== undefined) used.set(call.carrier, (used.get(call.carrier) ?? new Set()).add(use));
}

async function ask(memory: ReplayMemory, id: string, until: number, now: number): Promise<unknown> {
  try {
    return await memory.remember(id, until, now);
  } catch {
    return 'failed';
  }
}
