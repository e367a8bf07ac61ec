/** The bytes of one body, for as long as they are kept. */
export interface HeldBytes {
  /** False when there is no room for so many more. */
  add(bytes: number): boolean;
  release(): void;
}

export interface BodyBudget {
  /** For a body that this caller sends. */
  open(caller: string): HeldBytes;
  /** How many bytes are kept now. */
  held(): number;
}

const bodiesInAll = 16;
const bodiesOfOne = 8;

/**
 * All bodies that are kept at a time, from their first byte until they are answered. The memory for them is bounded by a
 * multiple of the longest body, and one caller can fill half of it.
 */
export function createBodyBudget(maxBodyBytes: () => number): BodyBudget {
  const ofCallers = new Map<string, number>();
  let inAll = 0;

  function change(caller: string, bytes: number): void {
    inAll += bytes;
    const now = (ofCallers.get(caller) ?? 0) + bytes;
    if (now === 0) ofCallers.delete(caller);
    else ofCallers.set(caller, now);
  }

  return {
    held: () => inAll,
    open(caller) {
      let mine = 0;
      return {
        add(bytes) {
          const most = maxBodyBytes();
          if (inAll + bytes > bodiesInAll * most) return false;
          if ((ofCallers.get(caller) ?? 0) + bytes > bodiesOfOne * most) return false;
          mine += bytes;
          change(caller, bytes);
          return true;
        },
        release() {
          if (mine > 0) change(caller, -mine);
          mine = 0;
        },
      };
    },
  };
}
