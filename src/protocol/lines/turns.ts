/** What one sender may have looked at before everybody else gets a turn. */
export const linesPerTurn = 64;
const bytesPerTurn = 256 * 1024;

/** The share that one sender has in a turn of the event loop. */
export interface Turns {
  /** Counts one more line as looked at. */
  spend(bytes: number): void;
  /** True from the moment when the share is used up until `goOn` is called. */
  isOver(): boolean;
}

/** Lets one sender have its share, and then calls `goOn` in the next turn. */
export function createTurns(goOn: () => void): Turns {
  let lines = 0;
  let bytes = 0;
  let over = false;

  function startOver(): void {
    lines = 0;
    bytes = 0;
    over = false;
    goOn();
  }

  return {
    spend(size) {
      bytes += size;
      if (++lines < linesPerTurn && bytes < bytesPerTurn) return;
      if (over) return;
      over = true;
      setImmediate(startOver);
    },
    isOver: () => over,
  };
}
