import { AmbitError } from '../../errors.ts';

/** How many processes there may be. */
export interface ProcessLimits {
  /** Of one server in one session. */
  readonly maxPerSession: number;
  /** Of the whole gateway. */
  readonly max: number;
}

/** A process as far as others may need its place. */
export interface StoppableProcess {
  /** Since when nothing is under way on the process; undefined while something is. */
  idleSince(): number | undefined;
  /** A client is connected to it and may call again. */
  hasClients(): boolean;
  /** Ends the process, not what stands for it: the next call starts another. */
  end(): void;
}

/** Who wants to start a process. */
export interface ProcessStarter extends StoppableProcess {
  readonly server: string;
  /** The server and session it is for; the server and those who share it, where several sessions do. */
  readonly owner: string;
  /** Sessions of other users may be served by the same process. */
  readonly isSharedByUsers: boolean;
  readonly sessionId: string;
  readonly userId: string;
}

/** A place for one process, from before it starts until it has left. */
export interface ProcessSlot {
  /** The process has been told to end: whoever needs a place waits for this one. */
  markLeaving(): void;
  /** The process has left, or did not start; may be said again. */
  release(): void;
}

/** Counts the processes of servers and refuses those beyond the bounds. */
export interface ProcessSlots {
  /**
   * Resolves when the process may start. Waits for processes that are just leaving, then ends idle ones; rejects with
   * OVERLOADED where there are none.
   */
  take(starter: ProcessStarter): Promise<ProcessSlot>;
  size(): number;
}

interface TakenSlot extends ProcessSlot {
  readonly starter: ProcessStarter;
  isLeaving: boolean;
  readonly gone: Promise<void>;
}

/** A bound that is reached, and the places that count for it. */
interface ReachedLimit {
  readonly refusal: (limit: number) => AmbitError;
  readonly limit: number;
  readonly counted: readonly TakenSlot[];
}

const retryAfterMs = 1000;
/** One session may take this part of all places, one user this part, and one user this part of a process's sharers. */
const [sessionDivisor, userDivisor, sharerDivisor] = [4, 2, 2];

/** Bounds are asked for with each start: they may change while processes run. */
export function createProcessAllowance(readLimits: () => ProcessLimits): ProcessSlots {
  const slots = new Set<TakenSlot>();

  function addSlot(starter: ProcessStarter): TakenSlot {
    let leave = () => {};
    const gone = new Promise<void>((accept) => {
      leave = accept;
    });
    const slot: TakenSlot = {
      starter,
      isLeaving: false,
      gone,
      markLeaving() {
        slot.isLeaving = true;
      },
      release() {
        slots.delete(slot);
        leave();
      },
    };
    slots.add(slot);
    return slot;
  }

  return {
    size: () => slots.size,
    async take(starter) {
      const reached = findReachedLimits(starter, [...slots], readLimits());
      const claimed = claimSlots(starter, reached, [...slots]);
      // From here on the new process counts and those it waits for do not: nobody else can wait for them.
      const held = addSlot(starter);
      for (const each of claimed) {
        slots.delete(each);
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
function findReachedLimits(
  starter: ProcessStarter,
  all: readonly TakenSlot[],
  { maxPerSession, max }: ProcessLimits,
): ReachedLimit[] {
  const { owner, isSharedByUsers: amongUsers, sessionId, userId } = starter;
  const of = (fits: (other: ProcessStarter) => boolean) => all.filter((held) => fits(held.starter));
  const sameUser = (other: ProcessStarter) => other.userId === userId;
  const ofSharer = { limit: shareOf(maxPerSession, sharerDivisor, 1), refusal: tooManyOfOwner(starter) };
  const checks: ReachedLimit[] = [
    ...(amongUsers ? [{ ...ofSharer, counted: of((other) => other.owner === owner && sameUser(other)) }] : []),
    { limit: maxPerSession, refusal: tooManyOfOwner(starter), counted: of((other) => other.owner === owner) },
    {
      limit: shareOf(max, sessionDivisor, maxPerSession),
      refusal: tooManyOf('session'),
      counted: of((other) => other.sessionId === sessionId),
    },
    { limit: shareOf(max, userDivisor, maxPerSession), refusal: tooManyOf('user'), counted: of(sameUser) },
    { limit: max, refusal: tooManyOfGateway, counted: all },
  ];
  return checks.filter(({ limit, counted }) => counted.length >= limit);
}

/** Never less than what one session may have of one server, and never more than all there are. */
function shareOf(max: number, divisor: number, least: number): number {
  return Math.min(max, Math.max(least, Math.ceil(max / divisor)));
}

/** The places that are given up for this one; throws when there are not enough. */
function claimSlots(starter: ProcessStarter, reached: readonly ReachedLimit[], all: readonly TakenSlot[]): TakenSlot[] {
  const claimed = new Set<TakenSlot>();
  for (const { limit, refusal, counted } of reached) {
    const missing = counted.length - limit + 1 - counted.filter((held) => claimed.has(held)).length;
    if (missing <= 0) continue;
    const found = sortByPriority(counted.filter((held) => !claimed.has(held) && mayClaim(starter, held, all)));
    if (found.length < missing) throw refusal(limit);
    for (const held of found.slice(0, missing)) claimed.add(held);
  }
  return [...claimed];
}

/** What others use is for a starter to end only where they have at least as many processes as it has. */
function mayClaim(starter: ProcessStarter, held: TakenSlot, all: readonly TakenSlot[]): boolean {
  const { starter: other } = held;
  if (held.isLeaving) return true;
  if (other.idleSince() === undefined) return false;
  // What several users share is not for one of them to end while a client is connected.
  if (other.owner === starter.owner) return !other.isSharedByUsers || !other.hasClients();
  if (other.userId === starter.userId) return true;
  const of = (userId: string) => all.filter((each) => each.starter.userId === userId).length;
  return of(other.userId) > of(starter.userId);
}

/** Those that leave anyway, those that nobody is connected to, and the longest idle ones. */
function sortByPriority(candidates: readonly TakenSlot[]): TakenSlot[] {
  const rank = ({ isLeaving, starter }: TakenSlot) => (isLeaving ? 0 : starter.hasClients() ? 2 : 1);
  return [...candidates].sort(
    (one, other) => rank(one) - rank(other) || (one.starter.idleSince() ?? 0) - (other.starter.idleSince() ?? 0),
  );
}

const tooManyOfOwner =
  ({ server, isSharedByUsers: amongUsers }: ProcessStarter) =>
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
