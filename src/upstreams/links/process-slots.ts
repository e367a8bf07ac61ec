import type { Config } from '../../config/schema/schema.ts';
import { AmbitError } from '../../errors.ts';
import type { ProcessFacts } from '../../sandbox/runner.ts';

/** `maxPerSession` is for the processes of one server in one session, `max` for those of the whole gateway. */
type ProcessLimits = Pick<Config['processes'], 'maxPerSession' | 'max'>;

/** A process that can be ended when its slot is needed. */
export interface StoppableProcess {
  /** The time since which the process has no call; undefined while it has one. */
  idleSince(): number | undefined;
  /** True while a client is connected, which may call again. */
  hasClients(): boolean;
  /** Ends the process but not its link: the next call starts another process. */
  end(): void;
}

/** A request for a slot, with the sessions and the user it is for. */
interface ProcessStarter extends StoppableProcess {
  readonly server: string;
  /** The key of the server and the session, or of the server and the sessions that share it. */
  readonly owner: string;
  /** True when the process may serve sessions of other users. */
  readonly isSharedByUsers: boolean;
  readonly sessionId: string;
  readonly userId: string;
}

/** A running process, as its start and its link know it. */
export interface SlotProcess extends ProcessFacts {
  /** Undefined where several sessions share the process. */
  readonly sessionId: string | undefined;
  readonly startedAt: number;
}

export interface ListedProcess extends SlotProcess {
  readonly server: string;
  /** The time since which the process has no call; undefined while it has one. */
  readonly idleSince: number | undefined;
}

/** A slot for one process, from before its start until its end. */
export interface ProcessSlot {
  /** Adds the process to the list of running ones. */
  markStarted(process: SlotProcess): void;
  /** Marks the process as ending: others wait for its slot. */
  markLeaving(): void;
  /** Frees the slot of a process that has ended or did not start. May be called again. */
  release(): void;
}

/** Counts the processes of servers and refuses those beyond the limits. */
export interface ProcessSlots {
  /**
   * Resolves when the process may start. Waits for processes that are ending, else ends idle ones. Rejects with OVERLOADED
   * when there are none.
   */
  take(starter: ProcessStarter): Promise<ProcessSlot>;
  size(): number;
  /** Lists the processes that run, in the order of their start. A process that is ending for another one is left out. */
  list(): readonly ListedProcess[];
}

interface TakenSlot extends ProcessSlot {
  readonly starter: ProcessStarter;
  process: SlotProcess | undefined;
  isLeaving: boolean;
  readonly gone: Promise<void>;
}

/** A limit that is reached, and the slots that count for it. */
interface ReachedLimit {
  readonly refusal: (limit: number) => AmbitError;
  readonly limit: number;
  readonly counted: readonly TakenSlot[];
}

const retryAfterMs = 1000;
/** The part of all slots for one session and for one user, and the part of a shared owner's slots for one user. */
const [sessionDivisor, userDivisor, sharerDivisor] = [4, 2, 2];

/** Creates the slots. The limits are read at each start, since they may change. */
export function createProcessSlots(readLimits: () => ProcessLimits): ProcessSlots {
  const slots = new Set<TakenSlot>();

  function addSlot(starter: ProcessStarter): TakenSlot {
    let leave = () => {};
    const gone = new Promise<void>((accept) => {
      leave = accept;
    });
    const slot: TakenSlot = {
      starter,
      process: undefined,
      isLeaving: false,
      gone,
      markStarted(process) {
        slot.process = process;
      },
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
    list: () =>
      [...slots].flatMap(({ process, starter }) =>
        process === undefined ? [] : [{ ...process, server: starter.server, idleSince: starter.idleSince() }],
      ),
    async take(starter) {
      const reached = findReachedLimits(starter, [...slots], readLimits());
      const claimed = claimSlots(starter, reached, [...slots]);
      // From here on the new process counts and the claimed ones do not, so that nobody else waits for them.
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

/** Finds the limits that one more process would exceed, the narrowest first. */
function findReachedLimits(
  starter: ProcessStarter,
  all: readonly TakenSlot[],
  { maxPerSession, max }: ProcessLimits,
): ReachedLimit[] {
  const { owner, isSharedByUsers, sessionId, userId } = starter;
  const of = (fits: (other: ProcessStarter) => boolean) => all.filter((held) => fits(held.starter));
  const sameUser = (other: ProcessStarter) => other.userId === userId;
  const ofSharer = { limit: shareOf(maxPerSession, sharerDivisor, 1), refusal: tooManyOfOwner(starter) };
  const checks: ReachedLimit[] = [
    ...(isSharedByUsers ? [{ ...ofSharer, counted: of((other) => other.owner === owner && sameUser(other)) }] : []),
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

/** A share of all slots: never less than one session may have of one server, and never more than all. */
function shareOf(max: number, divisor: number, least: number): number {
  return Math.min(max, Math.max(least, Math.ceil(max / divisor)));
}

/** Claims the slots that are freed for this process; throws when there are not enough. */
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

/** True when a process may be ended. The user of another process must have more processes than the starter's. */
function mayClaim(starter: ProcessStarter, held: TakenSlot, all: readonly TakenSlot[]): boolean {
  const { starter: other } = held;
  if (held.isLeaving) return true;
  if (other.idleSince() === undefined) return false;
  // One user must not end a shared process while a client is connected.
  if (other.owner === starter.owner) return !other.isSharedByUsers || !other.hasClients();
  if (other.userId === starter.userId) return true;
  const of = (userId: string) => all.filter((each) => each.starter.userId === userId).length;
  return of(other.userId) > of(starter.userId);
}

/** Sorts the candidates: processes that are ending, then those without clients, then the longest idle ones. */
function sortByPriority(candidates: readonly TakenSlot[]): TakenSlot[] {
  const rank = ({ isLeaving, starter }: TakenSlot) => (isLeaving ? 0 : starter.hasClients() ? 2 : 1);
  return [...candidates].sort(
    (one, other) => rank(one) - rank(other) || (one.starter.idleSince() ?? 0) - (other.starter.idleSince() ?? 0),
  );
}

const tooManyOfOwner =
  ({ server, isSharedByUsers }: ProcessStarter) =>
  (limit: number): AmbitError =>
    new AmbitError('OVERLOADED', {
      what: isSharedByUsers
        ? `The server "${server}" has reached its limit of processes for you (${limit}).`
        : `The server "${server}" has reached its limit of processes for this session (${limit}).`,
      hint: 'Wait until a running call has ended, or disconnect a client, then try again. The operator can raise processes.maxPerSession.',
      rule: 'processes.maxPerSession',
      retryAfterMs,
    });

const tooManyOf =
  (whose: 'session' | 'user') =>
  (limit: number): AmbitError =>
    new AmbitError('OVERLOADED', {
      what: `The servers of this ${whose} have reached their limit of processes (${limit}).`,
      hint: 'Wait until a running call has ended, then try again. The operator can raise processes.max.',
      rule: 'processes.max',
      retryAfterMs,
    });

const tooManyOfGateway = (limit: number): AmbitError =>
  new AmbitError('OVERLOADED', {
    what: `The gateway has reached its limit of processes (${limit}).`,
    hint: 'Try again in a moment. The operator can raise processes.max.',
    rule: 'processes.max',
    retryAfterMs,
  });
