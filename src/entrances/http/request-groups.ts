/**
 * Lets requests that arrive together run together. Requests that take each step side by side find the code of that step
 * in the cache of the processor, and their writes wake up another process once instead of once for each request. With
 * sixteen concurrent sessions this saves about a third of the processor time of a call (decision 30).
 */
export interface RequestGroups {
  /** Counts a request that waits for its answer. */
  enter(): void;
  /** Must be called once for each `enter`: when the request is answered, or when its answer becomes a stream. */
  leave(): void;
  /**
   * Waits until the events that have arrived are handled, then goes on with the others that wait here. Returns undefined
   * if no other request waits for an answer: a single request goes on at once.
   */
  join(): Promise<void> | undefined;
}

/** A larger group would delay the first answers until the last request of the group is handled. */
const maxGroupSize = 32;

export function createRequestGroups(): RequestGroups {
  let waiting = 0;
  let group: (() => void)[] = [];

  /** Starts a group that goes on in the next check phase of the event loop, after all events that have arrived. */
  function startGroup(): void {
    const members: (() => void)[] = [];
    group = members;
    setImmediate(() => {
      if (group === members) group = [];
      for (const goOn of members) goOn();
    });
  }

  function addMember(goOn: () => void): void {
    if (group.length === 0 || group.length === maxGroupSize) startGroup();
    group.push(goOn);
  }

  return {
    enter() {
      waiting++;
    },
    leave() {
      waiting--;
    },
    join: () => (waiting > 1 ? new Promise<void>(addMember) : undefined),
  };
}
