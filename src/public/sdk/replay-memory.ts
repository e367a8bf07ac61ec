import type { IncomingCall } from './call.ts';
import { refuseContext } from './context.ts';
import type { TokenClaims } from './verify-token.ts';

/** The memory of this process: servers are often built anew for each request. */
const replays = createReplayMemory();

/** One message may be read twice, by a wrapper and by the handler in it; that is no replay. */
const usesByMessage = new WeakMap<object, Set<string>>();

interface TokenUse {
  readonly now: number;
  readonly until: number;
  readonly memory: ReplayMemory | undefined;
}

/**
 * A memory of used tokens. Give your own, over a shared store, if several processes serve one audience: a token is valid
 * once in all of them, not once in each.
 */
export interface ReplayMemory {
  /** Says whether the id is new, and keeps it until that time (milliseconds since 1970). */
  remember(id: string, until: number, now: number): 'new' | 'seen' | 'full' | Promise<'new' | 'seen' | 'full'>;
}

/**
 * Creates a memory that keeps ids until their tokens have expired. When it is full, further tokens are refused: a
 * forgotten token could be used again.
 */
export function createReplayMemory(limit = 250_000): ReplayMemory {
  const seen = new Map<string, number>();

  function forgetExpired(now: number): void {
    // All tokens have the same lifetime, so the order of arrival is nearly the order of expiry.
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

/**
 * Throws if the token was used before, at once unless the memory takes time. This check comes last: a token refused for
 * another reason counts as unused.
 */
export function assertNotReplayed(
  claims: TokenClaims,
  call: IncomingCall,
  { now, until, memory = replays }: TokenUse,
): Promise<void> | undefined {
  const id = `${claims.issuer} ${claims.id}`;
  const use = `${typeof call.id} ${call.id} ${id}`;
  if (call.carrier !== undefined && usesByMessage.get(call.carrier)?.has(use)) return undefined;
  const answer = rememberOrFail(memory, id, until, now);
  if (answer instanceof Promise) return answer.then((late) => acceptUse(late, call, use));
  acceptUse(answer, call, use);
  return undefined;
}

function acceptUse(answer: unknown, call: IncomingCall, use: string): void {
  if (answer === 'seen')
    refuseContext('TOKEN_REPLAYED', 'The token has already been used; each token is valid for one call.');
  if (answer !== 'new') {
    refuseContext(
      'REPLAYS_UNKNOWN',
      'The server cannot check at the moment whether the token was already used. Try again in a minute.',
    );
  }
  if (call.carrier === undefined) return;
  const uses = usesByMessage.get(call.carrier);
  if (uses === undefined) usesByMessage.set(call.carrier, new Set([use]));
  else uses.add(use);
}

/** Asks the memory. A memory that fails, at once or later, accepts nothing. */
function rememberOrFail(memory: ReplayMemory, id: string, until: number, now: number): unknown {
  try {
    const answer: unknown = memory.remember(id, until, now);
    // A memory of someone else may return any kind of thenable.
    return typeof answer === 'string' ? answer : Promise.resolve(answer).catch(() => 'failed');
  } catch {
    return 'failed';
  }
}
