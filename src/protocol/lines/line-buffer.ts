export const keptEndBytes = 1024;
const smallBytes = 4096;
const blockBytes = 16 * 1024;

/** Collects the pieces of a line that arrives in parts. */
export interface PieceBuffer {
  add(piece: Buffer): void;
  /** Returns all pieces in order; use them before the next `add`. */
  take(): Buffer[];
}

/** Copies small pieces together: thousands of one-byte buffers would take a hundred times their content. */
export function createPieceBuffer(): PieceBuffer {
  let pieces: Buffer[] = [];
  let block: Buffer | undefined;
  let from = 0;
  let used = 0;

  function closeRun(): void {
    if (block !== undefined && used > from) pieces.push(block.subarray(from, used));
    from = used;
  }

  return {
    add(piece) {
      if (piece.length >= smallBytes) {
        closeRun();
        pieces.push(piece);
        return;
      }
      if (block === undefined || used + piece.length > block.length) {
        closeRun();
        block = Buffer.allocUnsafeSlow(blockBytes);
        from = 0;
        used = 0;
      }
      used += piece.copy(block, used);
    },
    take() {
      closeRun();
      const taken = pieces;
      pieces = [];
      from = 0;
      used = 0;
      return taken;
    },
  };
}

/** Keeps the first and last bytes of a line that is discarded. */
export interface LineEnds {
  add(piece: Buffer): void;
  endsInCarriageReturn(): boolean;
  /** Returns the start of a line of `length` bytes, without a carriage return at its end. */
  head(length: number): Buffer;
  tail(length: number): Buffer;
}

export function createLineEnds(): LineEnds {
  // One byte more, which may turn out to be the carriage return.
  const keep = keptEndBytes + 1;
  const first = Buffer.allocUnsafeSlow(keptEndBytes);
  const last = Buffer.allocUnsafeSlow(4 * keep);
  let firstUsed = 0;
  let lastUsed = 0;
  let total = 0;

  return {
    add(piece) {
      total += piece.length;
      if (firstUsed < keptEndBytes) firstUsed += piece.copy(first, firstUsed);
      if (piece.length >= keep) {
        lastUsed = piece.copy(last, 0, piece.length - keep);
        return;
      }
      if (lastUsed + piece.length > last.length) {
        last.copyWithin(0, lastUsed - keep, lastUsed);
        lastUsed = keep;
      }
      lastUsed += piece.copy(last, lastUsed);
    },
    endsInCarriageReturn: () => last[lastUsed - 1] === 13,
    head: (length) => first.subarray(0, Math.min(firstUsed, length)),
    tail(length) {
      const end = lastUsed - (total - length);
      return last.subarray(Math.max(0, end - keptEndBytes), end);
    },
  };
}
