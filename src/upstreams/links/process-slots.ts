import { AmbitError } from '../../errors.ts';

/** How many processes there may be. */
export interface ProcessBounds {
  /** Of one server in one session. */
  readonly maxPerSession: number;
  /** Of the whole gateway. */
  readonly max: number;
}

/** A process as far as others may need its place. */
export interface Endable {
  /** Since when nothing is under way on the process; undefined while something is. */
  idleSince(): number | undefined;
  /** A client is connected to it and may call again. */
  isAwaited(): boolean;
  /** Ends the process, not what stands for it: the next call starts another. */
  end(): void;
}

/** Who wants to start a process. */
export interface Starter extends Endable {
  readonly server: string;
  /** The server and session it is for; the server and those who share it, where several sessions do. */
  readonly owner: string;
  /** Sessions of other users may be served by the same process. */
  readonly amongUsers: boolean;
  readonly sessionId: string;
  readonly userId: string;
}

/** A place for one process, from before it starts until it has left. */
export interface Place {
  /** The process has been told to end: whoever needs a place waits for this one. */
  leaving(): void;
  /** The process has left, or did not start; may be said again. */
  release(): void;
}

/** Counts the processes of servers and refuses those beyond the bounds. */
export interface ProcessAllowance {
  /**
   * Resolves when the process may start. Waits for processes that are just leaving, then ends idle ones; rejects with
   * OVERLOADED where there are none.
   */
  take(starter: Starter): Promise<Place>;
  size(): number;
}

interface Held extends Place {
  readonly starter: Starter;
  isLeaving: boolean;
  readonly gone: Promise<void>;
}

/** A bound that is reached, and the places that count for it. */
interface Reached {
  readonly refusal: (limit: number) => AmbitError;
  readonly limit: number;
  readonly counted: readonly Held[];
}

const retryAfterMs = 1000;
/** One session may take this part of all places, one user this part, and one user this part of a process's sharers. */
const [partOfSession, partOfUser, partOfSharer] = [4, 2, 2];

/** Bounds are asked for with each start: they may change while processes run. */
export function createProcessAllowance(bounds: () => ProcessBounds): ProcessAllowance {
  const places = new Set<Held>();

  function addPlace(starter: Starter): Held {
    let leave = () => {};
    const gone = new Promise<void>((accept) => {
      leave = accept;
    });
    const held: Held = {
      starter,
      isLeaving: false,
      gone,
      leaving() {
        held.isLeaving = true;
      },
      release() {
        places.delete(held);
        leave();
      },
    };
    places.add(held);
    return held;
  }

  return {
    size: () => places.size,
    async take(starter) {
      const reached = reachedBy(starter, [...places], bounds());
      const claimed = claimFor(starter, reached, [...places]);
      // From here on the new process counts and those it waits for do not: nobody else can wait for them.
      const held = addPlace(starter);
      for (const each of claimed) {
        places.delete(each);
        if (!each.isLeaving) {
          each.isLeaving = true;
          each.starter.end();
        }
      }
      await Promise.all(claimed.map(({ gone }) => gone));
      return held;
    },
  };
}

/** The bounds that one more process would exceed, the narrowest first. */
function reachedBy(starter: Starter, all: readonly Held[], { maxPerSession, max }: ProcessBounds): Reached[] {
  const { owner, amongUsers, sessionId, userId } = starter;
  const of = (fits: (other: Starter) => boolean) => all.filter((held) => fits(held.starter));
  const sameUser = (other: Starter) => other.userId === userId;
  const ofSharer = { limit: part(maxPerSession, partOfSharer, 1), refusal: tooManyOfOwner(starter) };
  const checks: Reached[] = [
    ...(amongUsers ? [{ ...ofSharer, counted: of((other) => other.owner === owner && sameUser(other)) }] : []),
    { limit: maxPerSession, refusal: tooManyOfOwner(starter), counted: of((other) => other.owner === owner) },
    {
      limit: part(max, partOfSession, maxPerSession),
      refusal: tooManyOf('session'),
      counted: of((other) => other.sessionId === sessionId),
    },
    { limit: part(max, partOfUser, maxPerSession), refusal: tooManyOf('user'), counted: of(sameUser) },
    { limit: max, refusal: tooManyOfGateway, counted: all },
  ];
  return checks.filter(({ limit, counted }) => counted.length >= limit);
}

/** Never less than what one session may have of one server, and never more than all there are. */
function part(max: number, divisor: number, least: number): number {
  return Math.min(max, Math.max(least, Math.ceil(max / divisor)));
}

/** The places that are given up for this one; throws when there are not enough. */
function claimFor(starter: Starter, reached: readonly Reached[], all: readonly Held[]): Held[] {
  const claimed = new Set<Held>();
  for (const { limit, refusal, counted } of reached) {
    const missing = counted.length - limit + 1 - counted.filter((held) => claimed.has(held)).length;
    if (missing <= 0) continue;
    const found = inOrder(counted.filter((held) => !claimed.has(held) && mayClaim(starter, held, all)));
    if (found.length < missing) throw refusal(limit);
    for (const held of found.slice(0, missing)) claimed.add(held);
  }
  return [...claimed];
}

/** What others use is for a starter to end only where they have at least as many processes as it has. */
function mayClaim(starter: Starter, held: Held, all: readonly Held[]): boolean {
  const { starter: other } = held;
  if (held.isLeaving) return true;
  if (other.idleSince() === undefined) return false;
  // What several users share is not for one of them to end while a client is connected.
  if (other.owner === starter.owner) return !other.amongUsers || !other.isAwaited();
  if (other.userId === starter.userId) return true;
  const of = (userId: string) => all.filter((each) => each.starter.userId === userId).length;
  return of(other.userId) > of(starter.userId);
}

/** Those that leave anyway, those that nobody is connected to, and the longest idle ones. */
function inOrder(candidates: readonly Held[]): Held[] {
  const rank = ({ isLeaving, starter }: Held) => (isLeaving ? 0 : starter.isAwaited() ? 2 : 1);
  return [...candidates].sort(
    (one, other) => rank(one) - rank(other) || (one.starter.idleSince() ?? 0) - (other.starter.idleSince() ?? 0),
  );
}

const tooManyOfOwner =
  ({ server, amongUsers }: Starter) =>
  (limit: number): AmbitError =>
    new AmbitError('OVERLOADED', {
      what: amongUsers
        ? `The server "${server}" runs as many processes for you as it may (${limit}).`
        : `The server "${server}" runs as many processes for this session as it may (${limit}).`,
      hint: 'Wait for a call that is under way to end, or disconnect a client, then try again. The operator can raise processes.maxPerSession.',
      rule: 'processes.maxPerSession',
      retryAfterMs,
    });

const tooManyOf =
  (whose: 'session' | 'user') =>
  (limit: number): AmbitError =>
    new AmbitError('OVERLOADED', {
      what: `The servers of this ${whose} run as many processes as they may together (${limit}).`,
      hint: 'Wait for a call that is under way to end, then try again. The operator can raise processes.max.',
      rule: 'processes.max',
      retryAfterMs,
    });

const tooManyOfGateway = (limit: number): AmbitError =>
  new AmbitError('OVERLOADED', {
    what: `The gateway runs as many processes as it may (${limit}).`,
    hint: 'Try again in a moment. The operator can raise processes.max.',
    rule: 'processes.max',
    retryAfterMs,
  });
