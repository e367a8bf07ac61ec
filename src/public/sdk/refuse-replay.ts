import type { Call } from './call.ts';
import type { Claims } from './claims.ts';
import { Refusal } from './refusal.ts';
import { createReplayMemory, type ReplayMemory } from './replay-memory.ts';

/** One for the process: servers are often built anew for each request. */
const replays = createReplayMemory();
/** A message may be looked at more than once, by a wrapper and by the handler in it; that is no replay. */
const used = new WeakMap<object, Set<string>>();

interface Use {
  readonly now: number;
  readonly until: number;
  readonly memory: ReplayMemory | undefined;
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
